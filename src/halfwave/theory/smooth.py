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
from numpy.typing import NDArray
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
            # The root of V first: V may be large and the power of the side small, beyond float64 each.
            total += (size ** (1.0 / order) / (2.0 * math.pi * axis.side)) ** order * alias_sum(axis, order)
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
    shortest, total = sobolev_sum(lattice, s)
    # The root of the seminorm first: the seminorm may be large and the power of the length small, beyond float64 each.
    return (seminorm ** (1.0 / s) / (2.0 * math.pi * shortest)) ** s * math.sqrt(total) + mean


@lru_cache(maxsize=256)
def sobolev_sum(lattice: Lattice, s: float) -> tuple[float, float]:
    """A length q0 and the sum over l != 0, w + m l != 0 of (|w + m l|/q0)^(-2s): a number of ordinary size.

    Limits: s > d/2. Near d/2 the sum converges slowly and the bound on its tail makes the result larger.
    """
    if lattice.dimension == 1:
        axis = lattice.axes[0]
        return float(axis.side), alias_sum(axis, 2.0 * s)
    reach = _REACH.get(lattice.dimension, 4) + max(math.ceil(abs(axis.t)) for axis in lattice.axes)
    squares = _near_squares(lattice, reach)
    least = float(squares.min())
    near = float(np.sum((squares / least) ** -s))
    return math.sqrt(least), near + _tail_bound(lattice, s, reach, math.sqrt(least))


def _near_squares(lattice: Lattice, reach: int) -> NDArray[np.float64]:
    """|w + m l|^2 for max|l_k| <= reach; inf where l or w + m l is 0."""
    offsets = np.arange(-reach, reach + 1, dtype=np.float64)
    squares = np.zeros((1,) * lattice.dimension)
    for position, axis in enumerate(lattice.axes):
        shape = [1] * lattice.dimension
        shape[position] = offsets.size
        squares = squares + ((axis.frequency + axis.side * offsets) ** 2).reshape(shape)
    squares[(reach,) * lattice.dimension] = np.inf
    squares[squares == 0] = np.inf
    return squares


def _tail_bound(lattice: Lattice, s: float, reach: int, shortest: float) -> float:
    """The terms with r = max|l_k| > reach: at most 2d(2r+1)^(d-1) of them, each at most (m (r - t)/q0)^(-2s).

    m is the shortest side and t the largest |t_k|; 2r + 1 = 2(r - t) + (2t + 1) turns the sum over r into Hurwitz
    zeta functions.
    """
    d, m = lattice.dimension, min(lattice.sides)
    t = max(abs(axis.t) for axis in lattice.axes)
    start = reach + 1 - t
    total = 0.0
    for power in range(d):
        coefficient = math.comb(d - 1, power) * 2.0**power * (2.0 * t + 1.0) ** (d - 1 - power)
        logarithm = 2.0 * s * math.log(shortest / m) + _log_zeta(2.0 * s - power, start)
        total += coefficient * (math.exp(logarithm) if logarithm < 700.0 else math.inf)
    return 2.0 * d * total


def _log_zeta(power: float, start: float) -> float:
    """log zeta(power, start), or where that is beyond float64 a bound: start^-p + start^(1-p)/(p-1)."""
    value = float(zeta(power, start))
    return math.log(value) if value > 0.0 else math.log1p(start / (power - 1.0)) - power * math.log(start)
