"""Memory at the paper's sizes, which no small machine has: planned, not measured."""

from __future__ import annotations

from functools import lru_cache

from halfwave.planner import plan_memory
from halfwave.planner.paper_memory import paper_batch, paper_workload
from halfwave.precision import Policy
from halfwave.recipes import HALF


@lru_cache
def planned_bytes(work: str, method: str) -> int:
    """Peak of one training step of the paper's model on a GPU; `work` is a problem, or "darcy-unet" and the like."""
    model, inputs = paper_workload(work).model, paper_workload(work).inputs(paper_batch(work))
    return plan_memory(model, inputs, policy=Policy.named(method, HALF), device="cuda").peak_bytes
