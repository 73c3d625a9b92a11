"""A contraction plan in words, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from halfwave.spectral.plan import ContractionPlan, ContractionStep

_GOALS = {"memory": "least memory", "flops": "fewest operations"}
_HOW = {"product": "matrix product", "scale": "entry by entry", "complex": "complex format", "real": "real"}
_OPTIONS = {
    "A": "one real equation of all tensors at once (option A)",
    "B": "real pairs, two tensors at a time (option B)",
    "C": "real pairs, small factors in complex format (option C)",
}


def describe(plan: ContractionPlan) -> str:
    """What `print(plan)` shows: the goal, every step with its cost, the totals, the slices."""
    numbers = "real" if plan.complex_mode == "A" else "complex"
    largest = f"{_count(plan.largest_elements).strip()} {numbers} numbers, {_count(plan.largest_bytes)}B"
    lines = [
        f"Contraction {plan.equation}",
        f"  goal:     {_GOALS[plan.objective]}, intermediates in {plan.format}",
        f"  numbers:  {_OPTIONS[plan.complex_mode]}",
        _steps(plan.steps),
        f"  in all:   {_count(plan.flops)}FLOP",
        f"  largest intermediate: {largest}",
        f"  peak with operands and result: {_count(plan.peak_bytes)}B",
    ]
    if plan.slices:
        sizes = dict(plan.sizes)
        count = prod(ceil(sizes[index] / length) for index, length in plan.slices)
        cut = ", ".join(f"{length} of {sizes[index]} along {index}" for index, length in plan.slices)
        lines.append(f"  streamed: {count} slices ({cut})")
    if plan.memory_limit is not None:
        lines.append(f"  limit:    {_count(plan.memory_limit)}B with gradients, in forward and backward pass")
    return "\n".join(lines)


def _steps(steps: Sequence[ContractionStep]) -> str:
    # Here, as rich would come with every import of the library.
    from halfwave.tables import build_table, table_text

    rows = [
        (step.equation, _HOW[step.kind], _count(step.elements).strip(), f"{_count(step.flops)}FLOP") for step in steps
    ]
    return table_text(build_table("", ["step", "how"], ["numbers", "cost"], rows))


def _count(value: int) -> str:
    """Three digits and a prefix: 1234567 is '1.23 M'."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:.3g} {prefix}"
    return f"{value} "
