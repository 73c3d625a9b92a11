"""What one rounding costs in a format: the constants u', eta and mu that every precision bound is made of.

Round to nearest: |fl(x) - x| <= u'|x| where x is normal (u' = u/(1+u), a little below u) and <= eta = half the smallest
subnormal below, so <= u'|x| + eta always, while |x| <= the largest number. Sums of two numbers of a format never lose
anything to underflow (their result is on the subnormal grid already) unless subnormal results are flushed; products and
casts do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from halfwave.errors import InputError
from halfwave.numerics import FORMATS, Accumulation, Format, get_format
from halfwave.theory.bound import read_number
from halfwave.theory.growth import Growth


@dataclass(frozen=True)
class Roundoff:
    """The rounding constants of a format.

    Attributes:
        relative: u', the relative error of one rounding.
        absolute: eta, the absolute error of one rounding in the underflow range.
        flushed: what a sum loses there: 0, or eta where subnormal results are flushed to zero.
        smallest_normal, largest: the range in which `relative` holds.
    """

    relative: float
    absolute: float
    flushed: float
    smallest_normal: float
    largest: float

    @property
    def growth(self) -> Growth:
        """1 + u'."""
        return Growth(self.relative)

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
    # Half the smallest subnormal number of fp64 is no number of float64: rounded up.
    absolute = format.smallest_normal if flush_to_zero else max(format.smallest_subnormal / 2.0, math.ulp(0.0))
    return Roundoff(
        relative=u / (1.0 + u),
        absolute=absolute,
        flushed=absolute if flush_to_zero else 0.0,
        smallest_normal=format.smallest_normal,
        largest=format.largest,
    )


Accumulator = str | Format | float | Accumulation
"""What a bound accepts as an accumulator: a format means rounding to nearest in it; a number is the unit of another
rounding in the range of fp32."""


def read_accumulation(accumulate: Accumulator) -> Accumulation:
    """The accumulation behind a name, a format or a unit."""
    if isinstance(accumulate, Accumulation):
        return accumulate
    if isinstance(accumulate, (str, Format)):
        return Accumulation.to_nearest(read_format(accumulate))
    return Accumulation(FORMATS["fp32"], read_number("accumulate (a unit roundoff)", accumulate), nearest=False)


def roundoff_in(sums: Accumulation, *, flush_to_zero: bool = False) -> Roundoff:
    """The constants of one rounding in an accumulator; not to nearest, a whole subnormal number may be lost."""
    unit = roundoff_of(sums.format, flush_to_zero=flush_to_zero or sums.flushes)
    if sums.nearest:
        return unit
    return replace(unit, relative=sums.unit, absolute=max(unit.absolute, sums.format.smallest_subnormal))


def sum_growth(sums: Accumulation, additions: int) -> Growth:
    """k sums in any order: to nearest 1 + k u without higher orders (Jeannerod and Rump 2013), else (1+u)^k."""
    return Growth(additions * sums.unit) if sums.nearest else Growth(sums.unit) ** additions


# |a2| <= 2^-8 |a| and |a3| <= 2^-17 |a|: what products of parts leave out, a2 b2, or a2 b3 + a3 b2 + a3 b3.
_LEFT_OUT = {1: 0.0, 2: 2.0**-16, 3: 2.0**-24 + 2.0**-34}


def part_products(format: Format) -> int:
    """Products that one product is taken by: a_i b_j with i + j <= parts + 1."""
    return format.parts * (format.parts + 1) // 2


def part_moduli(format: Format) -> float:
    """How much larger than |a b| the moduli of those products add up to: |a1| + |a2| + |a3| <= (1 + 2^-7) |a|."""
    return (1.0 + 2.0**-7) ** 2 if format.parts > 1 else 1.0


def product_growth(sums: Accumulation, additions: int, format: Format) -> Growth:
    """k additions of k + 1 products, in any order; by parts as many for each pair of them, and then those of the pairs.

    The moduli of products of parts add up to more, and some are left out.
    """
    if format.parts == 1:
        return sum_growth(sums, additions)
    inside = sum_growth(sums, additions) * sum_growth(sums, part_products(format) - 1)
    return Growth(_LEFT_OUT[format.parts] + part_moduli(format) * inside.excess)


def product_peak(sums: Accumulation, additions: int, format: Format) -> float:
    """The largest partial sum of it, over the sum of the moduli of the products."""
    return part_moduli(format) * product_growth(sums, additions, format).factor


def holds(outer: Format, inner: Format) -> bool:
    """Is every number of `inner` a number of `outer` (so that casting is exact)?"""
    return (
        outer.precision >= inner.precision
        and outer.largest >= inner.largest
        and outer.smallest_subnormal <= inner.smallest_subnormal
    )
