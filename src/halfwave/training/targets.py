"""How large targets are, and which of them count as zero.

A relative error has the target's norm below the line, so it says nothing about a target that is zero, or zero but for
rounding. The size of a target is max|y|, in its own units. It counts as zero when its size is not above `ZERO` times
the root mean square of the sizes of its split: what float32 does not resolve at the scale of the data. Such samples
are left out of every mean and counted apart. The rule has no units: data times any factor have the same zero targets.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.models import unpack_points
from halfwave.training.clouds import Targets
from halfwave.training.samples import Samples

ZERO = torch.finfo(torch.float32).eps
_LOOK = 8
"""Samples, spread over a split, from which the trainer takes the scale of its loss."""


def largest(values: Tensor) -> Tensor:
    """max|v| of each sample: (B, ...) -> (B,), float32 or wider."""
    return torch.linalg.vector_norm(values.detach(), math.inf, dim=tuple(range(1, values.ndim)))


def sizes_of(target: Targets) -> Tensor:
    """max|y| of each sample of a batch, (B,)."""
    if isinstance(target, Tensor):
        return largest(target)
    return torch.cat([largest(values[None]) for values in unpack_points(target.values, target.offsets)])


def floor_of(sizes: Tensor) -> float:
    """The size up to which a target counts as zero, from the sizes of a split or of a part of it."""
    return ZERO * float(sizes.double().square().mean().sqrt())


def find_floor(samples: Samples, split: str) -> float:
    """`floor_of` a few samples that are spread over a split; InputError when all targets of the split are zero."""
    spread = torch.linspace(0, len(samples) - 1, min(_LOOK, len(samples))).long().unique().tolist()
    rest = (list(range(start, min(start + _LOOK, len(samples)))) for start in range(0, len(samples), _LOOK))
    for indices in (spread, *rest):
        floor = floor_of(sizes_of(samples[indices][1]))
        if floor > 0:
            return floor
    raise InputError(f"all targets are zero in the {split} split: a relative error is not defined")
