"""Growth of a half-precision FFT: the factor G of its rounding errors, and when its sums overflow.

An unnormalised FFT of n values of size M reaches n M. In fp16 (largest number 65504) that is inf from n = 2^16 on for
M = 1: a 256 x 256 grid of ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from halfwave.numerics import Format
from halfwave.theory.bound import Number, outward_up, read_number
from halfwave.theory.growth import Growth
from halfwave.theory.lattice import Integers, read_grid, require_powers_of_two
from halfwave.theory.roundoff import Roundoff, read_format, roundoff_of


def fft_growth(unit: Roundoff, sides: Sequence[int]) -> Growth:
    """G = (1+u')^(log2 n) [(1+mu)(1+rho)]^(sum_k max(log2 m_k - 2, 0)) of a radix-2 FFT, sides powers of two.

    Each output is reached from each input through log2 n complex sums (1+u' each) and, along each axis, all but two
    stages of twiddle products: the first two stages multiply by 1 and -i, exactly.
    """
    require_powers_of_two(sides, "the FFT bound")
    stages = [side.bit_length() - 1 for side in sides]
    twiddles = sum(max(stage - 2, 0) for stage in stages)
    twiddle = Growth(unit.unit_error()) * Growth(unit.product_error())
    return unit.growth ** sum(stages) * twiddle**twiddles


def fft_losses(sides: Sequence[int], gain: float = 2.0) -> float:
    """What products of a radix-2 FFT can lose to underflow, over eta G, on means: 2 sqrt2 sum_t gain^(later)/gain^L.

    The sum is over stages t = 1..L that multiply (all but the first two of each axis), each followed by `later` stages.
    In one coefficient a stage has 2^later butterflies (gain 2); in l2 its losses grow by sqrt2 in each stage after it,
    from sqrt(n), and are l2 on means (gain sqrt2). Axes run from the last to the first.
    """
    stages = [side.bit_length() - 1 for side in reversed(sides)]
    later, total = sum(stages), 0.0
    for count in stages:
        for stage in range(count):
            later -= 1
            total += gain**later if stage >= 2 else 0.0
    return 2.0 * math.sqrt(2.0) * total / gain ** sum(stages)


def fft_peak(format: Format, sides: Sequence[int], mean: float, scale: float) -> float:
    """A bound on every number inside the FFT of scale*v, for mean|v| on the grid at most `mean`."""
    unit = roundoff_of(format)
    growth = fft_growth(unit, sides).factor
    points = math.prod(sides)
    return outward_up(points * growth * (unit.growth.factor * scale * mean + (1.0 + fft_losses(sides)) * unit.absolute))


def no_overflow(format: str | Format, grid: Integers, sup: Number, scale: float = 1.0) -> bool:
    """True if an unnormalised radix-2 FFT of scale*v in `format` cannot overflow for any |v| <= sup.

    `grid`: an int is one axis; a sequence gives the sides (powers of two). False does not mean that it does overflow.
    """
    target, sides = read_format(format), read_grid(grid)
    peak = fft_peak(target, sides, read_number("sup", sup), read_number("scale", scale, positive=True))
    return peak <= target.largest


def largest_scale(format: str | Format, grid: Integers, sup: Number) -> float:
    """The largest power of two by which v may be multiplied before the FFT without overflow; 0 if there is none."""
    target, sides = read_format(format), read_grid(grid)
    size = read_number("sup", sup, positive=True)
    unit = roundoff_of(target)
    room = target.largest / (math.prod(sides) * fft_growth(unit, sides).factor)
    room -= (1.0 + fft_losses(sides)) * unit.absolute
    if room <= 0.0:
        return 0.0
    power = min(1000, math.floor(math.log2(room) - math.log2(unit.growth.factor * size)))
    # The logarithms may be off by a rounding: one step down restores the guarantee.
    return 2.0 ** (power if fft_peak(target, sides, size, 2.0**power) <= target.largest else power - 1)
