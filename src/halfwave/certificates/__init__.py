"""Is it safe: errors of a precision policy measured beside their bounds, and the cheapest policy within a tolerance."""

from halfwave.certificates.automatic import auto_precision
from halfwave.certificates.certificate import Certificate
from halfwave.certificates.certifying import certify
from halfwave.certificates.compressing import compress
from halfwave.certificates.convolution_certificate import ConvolutionCertificate
from halfwave.certificates.error_change import TestErrors
from halfwave.certificates.finite_sample import (
    ConformalBound,
    Interval,
    change_of_error,
    conformal_bound,
    interval_of_mean,
)
from halfwave.certificates.grid_crossover import Crossover
from halfwave.certificates.grid_error import GridError, estimate_grid_errors
from halfwave.certificates.observing import Observation, core_of, observe
from halfwave.certificates.precision_plan import Choice, PrecisionPlan
from halfwave.certificates.samples import Sample, Samples, measure_error
from halfwave.certificates.sensitivity import Sensitivities, predict_error, sensitivities

__all__ = [
    "Certificate",
    "Choice",
    "ConformalBound",
    "ConvolutionCertificate",
    "Crossover",
    "GridError",
    "Interval",
    "Observation",
    "PrecisionPlan",
    "Sample",
    "Samples",
    "Sensitivities",
    "TestErrors",
    "auto_precision",
    "certify",
    "change_of_error",
    "compress",
    "conformal_bound",
    "core_of",
    "estimate_grid_errors",
    "interval_of_mean",
    "measure_error",
    "observe",
    "predict_error",
    "sensitivities",
]
