"""What a model will cost, and whether its precision is safe."""

from halfwave.planner.certificate import BlockCertificate, Certificate
from halfwave.planner.certify import certify
from halfwave.planner.cost import CostPlan, plan_cost
from halfwave.planner.hardware_table import DEVICES, get_device
from halfwave.planner.largest import largest_batch
from halfwave.planner.memory import MemoryPlan, plan_memory
from halfwave.planner.precision import plan_precision
from halfwave.planner.precision_plan import Choice, PrecisionPlan
from halfwave.planner.roofline import Roofline
from halfwave.planner.stopwatch import Stopwatch

__all__ = [
    "DEVICES",
    "BlockCertificate",
    "Certificate",
    "Choice",
    "CostPlan",
    "MemoryPlan",
    "PrecisionPlan",
    "Roofline",
    "Stopwatch",
    "certify",
    "get_device",
    "largest_batch",
    "plan_cost",
    "plan_memory",
    "plan_precision",
]
