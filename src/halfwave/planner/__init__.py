"""What a model will cost, and whether its precision is safe."""

from halfwave.planner.certificate import BlockCertificate, Certificate
from halfwave.planner.certify import certify
from halfwave.planner.precision import plan_precision
from halfwave.planner.precision_plan import Choice, PrecisionPlan

__all__ = ["BlockCertificate", "Certificate", "Choice", "PrecisionPlan", "certify", "plan_precision"]
