"""Is it safe: errors of a precision policy measured beside their bounds, and the cheapest policy within a tolerance."""

from halfwave.certificates.certificate import BlockCertificate, Certificate
from halfwave.certificates.certifying import certify
from halfwave.certificates.observing import Observation, core_of, observe
from halfwave.certificates.precision import plan_precision
from halfwave.certificates.precision_plan import Choice, PrecisionPlan
from halfwave.certificates.samples import Sample, Samples, measure_error
from halfwave.certificates.sensitivity import Sensitivities, predict_error, sensitivities

__all__ = [
    "BlockCertificate",
    "Certificate",
    "Choice",
    "Observation",
    "PrecisionPlan",
    "Sample",
    "Samples",
    "Sensitivities",
    "certify",
    "core_of",
    "measure_error",
    "observe",
    "plan_precision",
    "predict_error",
    "sensitivities",
]
