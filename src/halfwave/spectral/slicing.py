"""Working in slices: bound the temporary memory of an operation by the size of a cache, not of a tensor.

On a CPU a temporary of tens of megabytes costs more in page faults than the arithmetic on it. A slice of a few
megabytes stays in the cache and in the allocator's hands. Elsewhere, and inside `torch.compile`, one slice is best.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from halfwave.numerics import compiling, kind_of

SLICE_BYTES = 4 << 20


def slices(length: int, bytes_per_item: int, device: torch.device, budget: int = SLICE_BYTES) -> Iterator[slice]:
    """Split range(length) into slices of at most `budget` bytes (at least one item) on a CPU, else one slice."""
    if compiling():
        yield slice(0, length)  # no loop: the length may be a symbol
        return
    step = length
    if kind_of(device) == "cpu":
        step = max(1, budget // max(1, bytes_per_item))
    for start in range(0, length, max(1, step)):
        yield slice(start, min(start + step, length))
