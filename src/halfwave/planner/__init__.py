"""What a model will cost, and whether its precision is safe."""

from halfwave.planner.certificate import BlockCertificate, Certificate
from halfwave.planner.certify import certify
from halfwave.planner.memory import MemoryPlan, plan_memory

__all__ = ["BlockCertificate", "Certificate", "MemoryPlan", "certify", "plan_memory"]
