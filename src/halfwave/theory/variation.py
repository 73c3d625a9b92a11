"""Discretization error of functions of bounded variation, jumps included: theorem T2.

Along one axis int v phi - v_h = -int K dv, K(s) = int_0^s phi - (1/m) sum_{j/m < s} phi(j/m), so the error is at most
TV sup|K|. With s = (j + y)/m, m K = z^j B(y) + C, where 2|C| = sqrt(1 + (cot x - 1/x)^2) and
2 sup|B| = 2|C| for |w| <= m, but 1/|x| + 1/|sin x| beyond (B then peaks inside the cell, not at its ends).
A periodic v has int dv = 0: C drops out, and TV is the variation round the circle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from halfwave.theory import trigonometry as trig
from halfwave.theory.lattice import Axis, Lattice


def variation_factor(axis: Axis) -> float:
    """sup m|K|: 1 at w = 0, at most 1.1855 for |w| <= m/2."""
    return 1.0 if axis.resonant else _constant_part(axis) + _oscillating_part(axis)


def periodic_variation_factor(axis: Axis) -> float:
    """sup|B|: 1/2 at w = 0."""
    return 0.5 if axis.resonant else _oscillating_part(axis)


def variation_bounds(
    variation: tuple[float, ...], sup: float, lattice: Lattice, periodic: bool
) -> Iterator[tuple[str, float]]:
    """(theorem, value): sum_k TV_k factor_k/m_k, and M* more for each aliased axis."""
    yield "T2 (bounded variation)", _sum(variation, sup, lattice, variation_factor, 2.0)
    if periodic:
        # Half the variation round a circle goes up and half down, so it bounds twice the oscillation.
        yield "T2p (periodic, bounded variation)", _sum(variation, sup, lattice, periodic_variation_factor, 4.0)


def _sum(
    variation: tuple[float, ...], sup: float, lattice: Lattice, factor: Callable[[Axis], float], halves: float
) -> float:
    reach = sup if lattice.resonant else min(sup, sum(variation) / halves)
    total = 0.0
    for axis, tv in zip(lattice.axes, variation, strict=True):
        total += tv * factor(axis) / axis.side
        if axis.aliased:
            total += reach
    return total


def _constant_part(axis: Axis) -> float:
    return math.hypot(1.0, trig.cot_minus_reciprocal(axis)) / 2.0


def _oscillating_part(axis: Axis) -> float:
    if abs(axis.frequency) <= axis.side:
        return _constant_part(axis)
    return (1.0 / abs(axis.x) + 1.0 / abs(math.sin(axis.reduced_x))) / 2.0
