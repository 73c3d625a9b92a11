"""Slices that are alike: where a step is run for its memory only, a few of them stand for all.

A field is worked on in slices of about a megabyte, so a step of 12 GB has tens of thousands of them, and on `meta` each
takes as long as it would on a CPU. What is alive while one is at work follows from its shape and from the shape of the
one before it (whose tensors are kept, or make room for others), so every such turn is taken twice and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_FEW: ContextVar[bool] = ContextVar("halfwave_few_slices", default=False)
_TURNS = 2


@contextmanager
def few_slices() -> Iterator[None]:
    """Within, loops over slices of `meta` tensors leave out those that show nothing new. Work must not be counted."""
    token = _FEW.set(True)
    try:
        yield
    finally:
        _FEW.reset(token)


def unlike(slices: Sequence[Tensor]) -> list[Tensor]:
    """All slices of a field; within `few_slices`, and on `meta`, each turn from a shape to a shape twice at most.

    Fields that are cut alike keep the same ones: shapes differ between such fields by the same axis only.
    """
    if not slices or not slices[0].is_meta or not _FEW.get():
        return list(slices)
    turns: Counter[tuple[torch.Size | None, torch.Size]] = Counter()
    kept, before = [], None
    for part in slices:
        turns[before, part.shape] += 1
        if turns[before, part.shape] <= _TURNS:
            kept.append(part)
        before = part.shape
    return kept
