"""What will it cost: memory and time of a training step before it runs; `plan_precision` chooses its formats."""

from halfwave.certificates import auto_precision as plan_precision
from halfwave.planner.cost import Clock, CostPlan, plan_cost
from halfwave.planner.largest_batch import largest_batch
from halfwave.planner.memory import MemoryPlan, plan_memory
from halfwave.planner.paper_memory import PaperRow, paper_peak, paper_tables
from halfwave.planner.roofline import DEVICES, Roofline, get_device
from halfwave.planner.sizes import format_bytes, parse_bytes
from halfwave.planner.stopwatch import Stopwatch
from halfwave.planner.verdicts import PolicyVerdict, judge
from halfwave.planner.workload import Workload, recipe_workload

__all__ = [
    "DEVICES",
    "Clock",
    "CostPlan",
    "MemoryPlan",
    "PaperRow",
    "PolicyVerdict",
    "Roofline",
    "Stopwatch",
    "Workload",
    "format_bytes",
    "get_device",
    "judge",
    "largest_batch",
    "paper_peak",
    "paper_tables",
    "parse_bytes",
    "plan_cost",
    "plan_memory",
    "plan_precision",
    "recipe_workload",
]
