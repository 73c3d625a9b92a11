"""What a model will cost, and whether its precision is safe."""

from halfwave.planner.certificate import BlockCertificate, Certificate
from halfwave.planner.certify import certify
from halfwave.planner.memory import MemoryPlan, plan_memory
from halfwave.planner.precision import plan_precision
from halfwave.planner.precision_plan import Choice, PrecisionPlan

__all__ = [
    "BlockCertificate",
    "Certificate",
    "Choice",
    "MemoryPlan",
    "PrecisionPlan",
    "certify",
    "plan_memory",
    "plan_precision",
]
