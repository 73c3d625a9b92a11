"""largest_batch: how many samples fit, found by plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from halfwave.planner.memory import plan_memory
from halfwave.planner.sizes import parse_bytes
from halfwave.planner.workload import Workload, as_workload
from halfwave.precision import Policy
from halfwave.recipes import Recipe

_LARGEST = 1 << 24
_SECOND = 16


def largest_batch(
    what: str | Recipe | nn.Module | Workload,
    memory: str | int,
    policy: str | Policy | None = "mixed",
    *,
    sample: Any = None,
    grid: int | None = None,
    device: str | None = None,
    **options: Any,
) -> int:
    """The largest batch whose training step fits into `memory`, all overheads included; 0 if one sample does not.

    Exact in the sense of the plans: this batch fits and the next does not.

    >>> largest_batch("darcy-paper", "24GiB", "mixed", device="cuda")

    Args:
        what: a recipe or its name, a model with `sample`, or `Workload`.
        memory: of the device: ``"24GiB"`` or bytes.
        policy: as in `plan_memory`.
        sample: of a model: the shape of one sample (C, *grid), or a function from the batch to the inputs.
        grid: of a recipe: points a side in place of its own.
        device, options: as in `plan_memory` (optimizer, recompute, loss).
    """
    limit = parse_bytes(memory)
    work = as_workload(what, sample, grid)
    known: dict[int, int] = {}

    def needed(batch: int) -> int:
        if batch not in known:
            plan = plan_memory(work.model, work.inputs(batch), policy=policy, device=device, **options)
            known[batch] = plan.needed_bytes
        return known[batch]

    return search(needed, limit)


def search(needed: Callable[[int], int], limit: int) -> int:
    """The largest b with needed(b) <= limit < needed(b + 1), for a function that grows almost linearly.

    A secant through two known batches says where to look next, so few plans are made; the bracket only shrinks, so a
    function that is not quite linear costs more plans and no exactness.
    """
    if needed(1) > limit:
        return 0
    below, above, other = 1, _LARGEST + 1, _SECOND
    while above - below > 1:
        slope = (needed(other) - needed(below)) / (other - below)
        guess = below + int((limit - needed(below)) / slope) if slope > 0 else 2 * below
        guess = min(max(guess, below + 1), above - 1)
        if needed(guess) <= limit:
            # The old end of the secant is the better one where it is above.
            other = above if above <= _LARGEST else below
            below = guess
        else:
            above = other = guess
    return below
