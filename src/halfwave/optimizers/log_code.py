"""LogCode: numbers of a block in 8 bits each, as levels that are equally far apart on a logarithmic scale.

With s the smallest power of two above the block's largest number, and a octaves' worth of levels below it,

    c = 0 stands for 0,        c > 0 for s · 2^((c - top) / a),        c < 0 for its negative.

Rounding is up or down at random, so that the mean is the number itself: the moments of an optimizer move by less than a
level a step, which rounding to nearest would lose. As s is a power of two, a block whose largest number changes keeps
its levels: they are the same numbers with other codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LARGEST_BLOCK = 256
SMALLEST_BLOCK = 64  # a scale of 4 bytes for fewer numbers than that is no longer little


@dataclass(frozen=True)
class LogCode:
    """Codes -top .. top, or 0 .. top, with `per_octave` levels for each factor of two.

    `to_zero`: what lies below the lowest level becomes 0 or that level, at random. Without it, it becomes that level:
    for numbers that something is divided by.
    """

    dtype: torch.dtype
    top: int
    per_octave: int
    to_zero: bool

    def decode(self, codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
        """(n, L) codes and (n,) scales to (n, L) numbers; a scale that is not finite makes its block so."""
        values = codes.to(dtype)
        signs = values.sign()
        values.abs_().sub_(self.top).div_(self.per_octave).exp2_()
        return values.mul_(signs).mul_(scales.to(dtype).unsqueeze(1))

    def encode(self, values: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """(n, L) numbers to their codes and scales."""
        sizes = values.abs()
        largest = sizes.amax(1)
        scales = torch.where(largest.isfinite(), torch.exp2(torch.frexp(largest).exponent.to(values.dtype)), largest)
        place = sizes.div_(scales.unsqueeze(1)).log2_().mul_(self.per_octave).add_(self.top)  # of 0: -inf
        if not self.to_zero:
            place.clamp_(min=1)
        below = place.floor().clamp_(min=0)
        above = torch.rand(place.shape, dtype=place.dtype, device=place.device, generator=generator)
        codes = below.add_(above < self._chance(place, below)).mul_(values.sign())
        return codes.nan_to_num_(0.0).to(self.dtype), scales

    def _chance(self, place: Tensor, below: Tensor) -> Tensor:
        """Of the level above: how far the number, not its logarithm, is on the way there from the one below."""
        step = math.log(2) / self.per_octave
        between = (place - below).mul_(step).expm1_().div_(math.expm1(step))
        if not self.to_zero:
            return between
        return torch.where(place < 1, torch.exp2((place - 1) / self.per_octave), between)


SIGNED = LogCode(torch.int8, top=127, per_octave=10, to_zero=True)
"""12.6 octaves of numbers of either sign, 7% apart."""
POSITIVE = LogCode(torch.uint8, top=255, per_octave=12, to_zero=False)
"""21 octaves of squares, 6% apart."""


def block_length(row: int) -> int:
    """The largest number of at most 256 that divides the numbers of a row: a block is in one row, and none is shorter.

    So the rows that a process has of a parameter have the blocks that they have in one process.
    """
    return next(length for length in range(min(row, LARGEST_BLOCK), 0, -1) if row % length == 0) if row else 0
