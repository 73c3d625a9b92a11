"""What one rounding costs in a format: the constants u', eta and mu that every precision bound is made of.

Round to nearest: |fl(x) - x| <= u'|x| where x is normal (u' = u/(1+u), a little below u) and <= eta = half the smallest
subnormal below, so <= u'|x| + eta always, while |x| <= the largest number. Sums of two numbers of a format never lose
anything to underflow (their result is on the subnormal grid already); products and casts do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from halfwave.errors import InputError
from halfwave.numerics import FORMATS, Format, get_format


@dataclass(frozen=True)
class Roundoff:
    """The rounding constants of a format.

    Attributes:
        relative: u', the relative error of one rounding.
        absolute: eta, the absolute error of one rounding in the underflow range.
        per_addition: what a sum adds to that: 0, or eta where subnormal results are flushed to zero.
        smallest_normal, largest: the range in which `relative` holds.
    """

    relative: float
    absolute: float
    per_addition: float
    smallest_normal: float
    largest: float

    def unit_error(self, scale: float = 1.0) -> float:
        """mu: the largest |q(phi)/scale - phi| over |phi| = 1 stored as phi*scale, real and imaginary part rounded.

        hypot(u', eta/scale), because at most one part is below the smallest normal number, unless scale is so small
        that both can be: then sqrt2 eta/scale may be larger.
        """
        underflow = self.absolute / scale
        if scale >= math.sqrt(2.0) * self.smallest_normal:
            return math.hypot(self.relative, underflow)
        return math.hypot(self.relative, math.sqrt(2.0) * underflow)

    def product_error(self) -> float:
        """rho: |fl(z w) - z w| <= rho |z w| for complex z, w by four products and two sums, underflow apart.

        The products are off by u' each, together sqrt2 u'|z w| at most, and the sums by u' of the computed result:
        rho = u' (1 + sqrt2 (1 + u')), for every format.
        """
        return self.relative * (1.0 + math.sqrt(2.0) * (1.0 + self.relative))


def read_format(format: str | Format) -> Format:
    """The format called `format`, or an InputError that lists the accepted names."""
    try:
        return get_format(format)
    except (ValueError, TypeError):
        raise InputError(f"unknown format {format!r}: expected one of {', '.join(FORMATS)}") from None


def roundoff_of(format: Format, *, flush_to_zero: bool = False) -> Roundoff:
    """The constants of a format; with `flush_to_zero` results below the smallest normal number become 0."""
    u = format.unit_roundoff
    absolute = format.smallest_normal if flush_to_zero else format.smallest_subnormal / 2.0
    return Roundoff(
        relative=u / (1.0 + u),
        absolute=absolute,
        per_addition=absolute if flush_to_zero else 0.0,
        smallest_normal=format.smallest_normal,
        largest=format.largest,
    )


def holds(outer: Format, inner: Format) -> bool:
    """Is every number of `inner` a number of `outer` (so that casting is exact)?"""
    return (
        outer.precision >= inner.precision
        and outer.largest >= inner.largest
        and outer.smallest_subnormal <= inner.smallest_subnormal
    )
