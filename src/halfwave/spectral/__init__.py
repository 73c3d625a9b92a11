"""Transforms as matrix products, spectra as real pairs, and the spectral convolution."""

from halfwave.spectral.bias import add_at
from halfwave.spectral.build import WeightSettings
from halfwave.spectral.contraction_settings import ContractionSettings
from halfwave.spectral.conv import SpectralConv
from halfwave.spectral.cost import TransformCost, estimate_transform, narrow_range
from halfwave.spectral.execution import execute
from halfwave.spectral.factorizations import CPWeight, DepthwiseWeight, TTWeight, TuckerWeight
from halfwave.spectral.factorized import FactorizedWeight, Implementation
from halfwave.spectral.fields import check_field, check_tensor
from halfwave.spectral.fourier import FourierTransform
from halfwave.spectral.legendre import SphereGrid
from halfwave.spectral.modes import Layout, check_modes
from halfwave.spectral.plan import ComplexMode, ContractionPlan, Objective, forget_plans, plan_contraction
from halfwave.spectral.ranks import Rank
from halfwave.spectral.resampling import resample
from halfwave.spectral.slicing import slices
from halfwave.spectral.spherical import SphericalTransform
from halfwave.spectral.transform import Engine, Transform, analyse, synthesise
from halfwave.spectral.transform_plan import Backend, plan_transform
from halfwave.spectral.weights import DenseWeight, SpectralWeight, holds_pairs, mark_pairs

__all__ = [
    "Backend",
    "CPWeight",
    "ComplexMode",
    "ContractionPlan",
    "ContractionSettings",
    "DenseWeight",
    "DepthwiseWeight",
    "Engine",
    "FactorizedWeight",
    "FourierTransform",
    "Implementation",
    "Layout",
    "Objective",
    "Rank",
    "SpectralConv",
    "SpectralWeight",
    "SphereGrid",
    "SphericalTransform",
    "TTWeight",
    "Transform",
    "TransformCost",
    "TuckerWeight",
    "WeightSettings",
    "add_at",
    "analyse",
    "check_field",
    "check_modes",
    "check_tensor",
    "estimate_transform",
    "execute",
    "forget_plans",
    "holds_pairs",
    "mark_pairs",
    "narrow_range",
    "plan_contraction",
    "plan_transform",
    "resample",
    "slices",
    "synthesise",
]
