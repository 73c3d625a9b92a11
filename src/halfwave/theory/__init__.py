"""Bounds that hold: discretization and precision errors of Fourier coefficients, blocks and networks.

Float64 mathematics on plain numbers; no nn. What needs a model lives in `halfwave.certificates`.
"""

from halfwave.theory.block import bound_block
from halfwave.theory.bound import Bound, Estimate, Number, read_number, read_per_axis
from halfwave.theory.crossing import crossover
from halfwave.theory.discretization import bound_discretization
from halfwave.theory.emulator import emulated_fft
from halfwave.theory.interpolant import Interpolant, estimate_lipschitz, estimate_variation
from halfwave.theory.lower_bounds import lower_bound_discretization
from halfwave.theory.measured import discretization_error, precision_error
from halfwave.theory.network import Layer, bound_layers, bound_network, bound_pointwise, bound_rounding
from halfwave.theory.overflow import largest_scale, no_overflow
from halfwave.theory.paper import (
    paper_bound_discretization,
    paper_bound_discretization_general,
    paper_bound_precision,
    paper_bound_precision_general,
    paper_lower_bound_algebra,
    paper_lower_bound_discretization,
    paper_lower_bound_discretization_general,
    paper_lower_bound_precision_general,
)
from halfwave.theory.pipeline import Pipeline, TransformName
from halfwave.theory.precision import Algorithm, bound_precision
from halfwave.theory.precision_system import PrecisionSystem, bound_precision_system
from halfwave.theory.roundoff import read_format

__all__ = [
    "Algorithm",
    "Bound",
    "Estimate",
    "Interpolant",
    "Layer",
    "Number",
    "Pipeline",
    "PrecisionSystem",
    "TransformName",
    "bound_block",
    "bound_discretization",
    "bound_layers",
    "bound_network",
    "bound_pointwise",
    "bound_precision",
    "bound_precision_system",
    "bound_rounding",
    "crossover",
    "discretization_error",
    "emulated_fft",
    "estimate_lipschitz",
    "estimate_variation",
    "largest_scale",
    "lower_bound_discretization",
    "no_overflow",
    "paper_bound_discretization",
    "paper_bound_discretization_general",
    "paper_bound_precision",
    "paper_bound_precision_general",
    "paper_lower_bound_algebra",
    "paper_lower_bound_discretization",
    "paper_lower_bound_discretization_general",
    "paper_lower_bound_precision_general",
    "precision_error",
    "read_format",
    "read_number",
    "read_per_axis",
]
