"""Is it safe: errors of a precision policy measured beside their bounds, and the cheapest policy within a tolerance."""

from halfwave.certificates.certificate import BlockCertificate, Certificate
from halfwave.certificates.certifying import certify
from halfwave.certificates.observing import Observation, core_of, observe
from halfwave.certificates.precision import plan_precision
from halfwave.certificates.precision_plan import Choice, PrecisionPlan
from halfwave.certificates.sensitivity import Samples, Sensitivities, predict_error, sensitivities

__all__ = [
    "BlockCertificate",
    "Certificate",
    "Choice",
    "Observation",
    "PrecisionPlan",
    "Samples",
    "Sensitivities",
    "certify",
    "core_of",
    "observe",
    "plan_precision",
    "predict_error",
    "sensitivities",
]
