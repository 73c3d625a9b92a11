"""Stored bytes: what a model keeps of a sample between its stages, and of its spectral weights, in each format.

A stage stores its result in its format: a layer's field, the kept spectrum, the contracted one, the field again. Where
a value is only handed on nothing new is stored. Weights count once, as the contraction reads them. fp8 counts the one
byte that hardware would store. What a training step takes at its peak is `planner.plan_memory`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping

from halfwave.certificates.sensitivity import Sensitivities
from halfwave.numerics import FORMATS

Stage = tuple[str, str]
"""A layer by its name, and a role of its policy."""


def stored_numbers(found: Sensitivities) -> dict[Stage, float]:
    """How many numbers each layer and stage stores, the mean over samples."""
    kept: list[bool] = []
    numbers: dict[Stage, float] = {}
    for point, size in zip(found.points, found.sizes.mean(1).tolist(), strict=True):
        before = bool(point.after) and all(kept[n] for n in point.after)
        weights = point.role == "weights" and point.kind == "load" and point.known
        new = weights or (point.kind == "store" and not before)
        stage = (point.module, point.role)
        numbers[stage] = numbers.get(stage, 0.0) + new * size
        kept.append(before or point.kind == "store")
    return numbers


def stored_bytes(numbers: Mapping[Stage, float], formats: Mapping[Stage, str]) -> float:
    """Bytes of all of them in these formats."""
    return sum(count * width(formats[stage]) for stage, count in numbers.items())


def width(name: str) -> int:
    """Bytes of a number in a format."""
    dtype = FORMATS[name].dtype
    return 4 if dtype is None else dtype.itemsize
