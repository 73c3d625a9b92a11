"""Packing: point sets of different sizes as one tensor and offsets, the form of a batch of geometries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from halfwave.numerics import outside_the_compiler


def pack_points(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Tensors (n_b, C) of a batch to (Σ n_b, C) and offsets (B + 1,): rows offsets[b] to offsets[b + 1] are part b."""
    if not parts:
        raise ValueError("nothing to pack: expected at least one tensor")
    sizes = torch.tensor([0, *(len(part) for part in parts)])
    return torch.cat(list(parts)), sizes.cumsum(0)


def unpack_points(packed: Tensor, offsets: Tensor) -> list[Tensor]:
    """The parts again, as views."""
    return list(packed.split(read_offsets("offsets", offsets, len(packed))))


@outside_the_compiler  # sizes are read from the data
def read_offsets(name: str, offsets: Tensor | Sequence[int], total: int) -> list[int]:
    """Sizes of the parts; ValueError unless the offsets begin with 0, grow, and end with `total`."""
    values = [int(v) for v in offsets]
    sizes = [b - a for a, b in pairwise(values)]
    if len(values) < 2 or values[0] != 0 or values[-1] != total or min(sizes) < 1:
        raise ValueError(f"{name} must begin with 0, grow with every geometry and end with {total}, got {values}")
    return sizes
