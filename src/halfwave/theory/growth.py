"""Factors 1 + x, carried by x: where x is small, forming 1 + x and taking the 1 away again leaves nothing of it.

A rounding in fp64 multiplies by at most 1 + 1.1e-16, and 1 + 1.1e-16 is 1 in float64: products of such factors are
kept as what they exceed 1 by. Every operation here is accurate to a few units of float64 relative to that excess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Growth:
    """The factor 1 + `excess`, excess >= 0."""

    excess: float = 0.0

    @property
    def factor(self) -> float:
        return 1.0 + self.excess

    def __mul__(self, other: Growth) -> Growth:
        """(1+a)(1+b) = 1 + (a + b + ab)."""
        return Growth(self.excess + other.excess + self.excess * other.excess)

    def __pow__(self, times: int) -> Growth:
        """(1+a)^k = 1 + expm1(k log1p a); inf where float64 ends."""
        exponent = times * math.log1p(self.excess)
        return Growth(math.expm1(exponent) if exponent < 700.0 else math.inf)
