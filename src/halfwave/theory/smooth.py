"""Discretization error of smooth periodic functions: theorem T4, in derivatives and in Sobolev norms.

For periodic v the grid coefficient is the sum of all its aliases, so the error is |sum_{l != 0} v^(w + m l)|.
With |v^(q)| <= V_k/|2 pi q|^k (k integrations by parts; V_k = int|v^(k)|, or the variation of v^(k-1)) it is a sum of
Hurwitz zeta functions along each axis; with |v|_s^2 = sum |2 pi q|^(2s) |v^(q)|^2 it is Cauchy-Schwarz.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
from scipy.special import zeta

from halfwave.theory.lattice import Axis, Lattice

# Terms of the lattice sum taken one by one; the rest is bounded. About 2e5 terms in every dimension.
_REACH = {1: 2000, 2: 200, 3: 28, 4: 10}


def derivative_bounds(
    derivatives: Mapping[int, tuple[float, ...]], reach: float, lattice: Lattice
) -> Iterator[tuple[str, float]]:
    """(theorem, value) for each order k >= 2: sum_j V_{k,j} (2 pi m_j)^-k sum_{l != 0} |l + t_j|^-k.

    `reach` is M*, charged for an aliased axis, where one of the aliases is the mean of v.
    """
    for order, bounds in derivatives.items():
        total = 0.0
        for axis, size in zip(lattice.axes, bounds, strict=True):
            total += size * (2.0 * math.pi * axis.side) ** -order * alias_sum(axis, order)
            if axis.aliased:
                total += reach
        yield f"T4 (periodic, {order} derivatives)", total


def alias_sum(axis: Axis, power: float) -> float:
    """sum over l != 0 of |l + t|^-power, leaving out l = -t where that is an integer."""
    t = abs(axis.t)
    if axis.aliased:
        return 2.0 * float(zeta(power, 1.0)) - t**-power
    if t < 1.0:
        return float(zeta(power, 1.0 + t) + zeta(power, 1.0 - t))
    fraction = (abs(axis.frequency) % axis.side) / axis.side
    return float(zeta(power, fraction) + zeta(power, 1.0 - fraction)) - t**-power


def sobolev_bound(lattice: Lattice, s: float, seminorm: float, reach: float) -> float:
    """|v|_s (sum over l != 0 of |2 pi (w + m l)|^(-2s))^(1/2).

    Where one of the aliases w + m l is 0 the seminorm does not see it: it is left out, and `reach` >= |mean v| added.
    """
    mean = reach if lattice.resonant and not lattice.zero else 0.0
    return seminorm * sobolev_factor(lattice, s) + mean


@lru_cache(maxsize=256)
def sobolev_factor(lattice: Lattice, s: float) -> float:
    """(sum_{l != 0, w + m l != 0} |2 pi (w + m l)|^(-2s))^(1/2).

    Limits: s > d/2. Near d/2 the sum converges slowly and the bound on its tail makes the result larger.
    """
    if lattice.dimension == 1:
        axis = lattice.axes[0]
        return (2.0 * math.pi * axis.side) ** -s * math.sqrt(alias_sum(axis, 2.0 * s))
    reach = _REACH.get(lattice.dimension, 4) + max(math.ceil(abs(axis.t)) for axis in lattice.axes)
    near = _near_sum(lattice, s, reach)
    return (2.0 * math.pi) ** -s * math.sqrt(near + _tail_bound(lattice, s, reach))


def _near_sum(lattice: Lattice, s: float, reach: int) -> float:
    """The terms with max|l_k| <= reach, l != 0."""
    offsets = np.arange(-reach, reach + 1, dtype=np.float64)
    squares = np.zeros((1,) * lattice.dimension)
    for position, axis in enumerate(lattice.axes):
        shape = [1] * lattice.dimension
        shape[position] = offsets.size
        squares = squares + ((axis.frequency + axis.side * offsets) ** 2).reshape(shape)
    squares[(reach,) * lattice.dimension] = np.inf
    squares[squares == 0] = np.inf
    return float(np.sum(squares**-s))


def _tail_bound(lattice: Lattice, s: float, reach: int) -> float:
    """The terms with r = max|l_k| > reach: at most 2d(2r+1)^(d-1) of them, each at most (m (r - t))^(-2s).

    m is the shortest side and t the largest |t_k|; 2r + 1 = 2(r - t) + (2t + 1) turns the sum over r into Hurwitz
    zeta functions.
    """
    d, m = lattice.dimension, min(lattice.sides)
    t = max(abs(axis.t) for axis in lattice.axes)
    start = reach + 1 - t
    total = 0.0
    for power in range(d):
        coefficient = math.comb(d - 1, power) * 2.0**power * (2.0 * t + 1.0) ** (d - 1 - power)
        total += coefficient * float(zeta(2.0 * s - power, start))
    return 2.0 * d * m ** (-2.0 * s) * total
