"""Domain padding: zeros around a field while the blocks work on it, for problems that are not periodic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

PaddingMode = Literal["symmetric", "one-sided"]
MODES = ("symmetric", "one-sided")


@dataclass(frozen=True)
class DomainPadding:
    """round(p N) zeros along an axis of N points: on both its sides (``"symmetric"``) or at its end alone.

    Attributes:
        fractions: p of each axis.
        mode: where the zeros go.
    """

    fractions: tuple[float, ...]
    mode: PaddingMode = "symmetric"

    def pad(self, v: Tensor) -> Tensor:
        """(B, C, *grid) to (B, C, *padded grid)."""
        if not any(self.fractions):
            return v
        widths = self.widths(tuple(v.shape[2:]))
        return nn.functional.pad(v, [width for pair in reversed(widths) for width in pair])

    def unpad(self, v: Tensor, grid: tuple[int, ...], factors: Sequence[float] | None = None) -> Tensor:
        """What belongs to the `grid` before padding; `factors` scaled the padded one on the way (None: as it shows)."""
        for axis, (before, after) in enumerate(self.widths(grid)):
            if not self.fractions[axis]:
                continue
            size, padded = v.shape[axis + 2], grid[axis] + before + after
            factor = size / padded if factors is None else factors[axis]
            start, end = (width if factor == 1 else round(width * factor) for width in (before, after))
            v = v.narrow(axis + 2, start, size - start - end)
        return v

    def widths(self, grid: tuple[int, ...]) -> list[tuple[int, int]]:
        """Zeros before and after each axis of a grid."""
        counts = [rounded_share(p, n) for p, n in zip(self.fractions, grid, strict=True)]
        return [(count if self.mode == "symmetric" else 0, count) for count in counts]


def rounded_share(p: float, n: int) -> int:
    """round(p n), ties to even; for a symbolic n a new symbol, with which an exporter can count."""
    if isinstance(n, int):
        return round(p * n)
    count = torch.round(torch.full((), n, dtype=torch.float64) * p).long().item()
    torch._check(count >= 0)
    torch._check(count <= 1 << 20)
    return int(count) if isinstance(count, (int, float)) else count


def check_padding(fractions: float | Sequence[float] | None, mode: PaddingMode, dim: int) -> DomainPadding:
    """The padding of a model on grids with `dim` axes; ValueError for what is none."""
    if mode not in MODES:
        raise ValueError(f"unknown domain_padding_mode {mode!r}: expected one of {', '.join(MODES)}")
    values = tuple(fractions) if isinstance(fractions, Sequence) else (fractions or 0.0,) * dim
    if len(values) != dim or min(values) < 0:
        raise ValueError(f"domain_padding must be a fraction >= 0, or {dim} of them, got {fractions!r}")
    return DomainPadding(values, mode)
