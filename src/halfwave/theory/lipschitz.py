"""Discretization error of Lipschitz functions: theorems T1a, T1b, T1c, and T3 for periodic ones.

All start from one identity. On the cell Q_j with corner xi_j (or centre xi_j, for periodic v),
    int v phi - v_h = sum_j int_{Q_j} (v - v(xi_j)) phi + (kappa - 1) v_h,
with kappa the mean of phi/phi(xi_j) over a cell. T1a takes absolute values; T1b takes the mean square of
v phi - v(xi_j) phi(xi_j), which is (v - v_j)^2 + 2 v v_j (1 - cos) for real v; T1c integrates by parts along one axis
at a time, where the kernel has mean square c(t)^2/m^2. Proofs: docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from halfwave.theory import trigonometry as trig
from halfwave.theory.lattice import Axis, Lattice

# Mean distance from the corner of the unit cube, A_d.
_MEAN_DISTANCE = {
    1: 0.5,
    2: (math.sqrt(2.0) + math.asinh(1.0)) / 3.0,
    3: math.sqrt(3.0) / 4.0 - math.pi / 24.0 + math.log(2.0 + math.sqrt(3.0)) / 2.0,
}


@dataclass(frozen=True)
class Smoothness:
    """What is known of v: L_k along each axis, the Euclidean constant L, sup|v| (inf if unknown), |v_h(w)| (inf)."""

    axes: tuple[float, ...]
    euclidean: float
    sup: float
    coefficient: float
    periodic: bool


def mean_distance(lattice: Lattice) -> float:
    """Mean of |y| over a cell with corner 0: A_d/m on cubes; at most sqrt(sum 1/(3 m_k^2)) by Jensen otherwise."""
    if lattice.cubic and lattice.dimension in _MEAN_DISTANCE:
        return _MEAN_DISTANCE[lattice.dimension] / lattice.axes[0].side
    return math.sqrt(sum(1.0 / (3.0 * m * m) for m in lattice.sides))


def mean_distance_below(lattice: Lattice) -> float:
    """A lower bound on the same mean: exact where it is known, else |mean of y| = sqrt(sum 1/(4 m_k^2))."""
    if lattice.cubic and lattice.dimension in _MEAN_DISTANCE:
        return _MEAN_DISTANCE[lattice.dimension] / lattice.axes[0].side
    return math.sqrt(sum(1.0 / (4.0 * m * m) for m in lattice.sides))


def half_oscillation(v: Smoothness, lattice: Lattice) -> float:
    """(max v - min v)/2 from the Lipschitz constants alone: the cube's diameter, half of it on the torus."""
    oscillation = min(v.euclidean * math.sqrt(lattice.dimension), sum(v.axes))
    return oscillation / (4.0 if v.periodic else 2.0)


def effective_sup(v: Smoothness, lattice: Lattice) -> float:
    """M*: sup|v - c| for the best constant c, where adding a constant changes nothing (w != 0 mod m); else M."""
    return v.sup if lattice.resonant else min(v.sup, half_oscillation(v, lattice))


def coefficient_bound(v: Smoothness, lattice: Lattice) -> float:
    """|v_h(w)| <= min(measured, M*, L_k (1-1/m)/(m |sin x_k|)) (summation by parts; L_k/(2m|sin x_k|) if periodic)."""
    known = [v.coefficient, effective_sup(v, lattice)]
    for axis, lipschitz in zip(lattice.axes, v.axes, strict=True):
        if not axis.resonant:
            step = lipschitz / (axis.side * abs(math.sin(axis.reduced_x)))
            known.append(step / 2.0 if v.periodic else step * (1.0 - 1.0 / axis.side))
    return min(known)


def lipschitz_bounds(v: Smoothness, lattice: Lattice) -> Iterator[tuple[str, float]]:
    """(theorem, value) for every Lipschitz bound that applies; values may be inf where M is needed and unknown."""
    yield "T1a (Lipschitz, cell means)", _by_means(v, lattice, 1.0, abs(trig.corner_defect(lattice)))
    yield "T1b (Lipschitz, mean squares)", _by_squares(v, lattice, 1.0, -trig.corner_defect(lattice).real)
    yield "T1c (Lipschitz, axis by axis)", _by_axes(v, lattice, lipschitz_factor)
    if v.periodic:
        yield "T3a (periodic Lipschitz, cell means)", _by_means(v, lattice, 0.5, abs(trig.centre_defect(lattice)))
        yield "T3b (periodic Lipschitz, mean squares)", _by_squares(v, lattice, 0.5, -trig.centre_defect(lattice))
        yield "T3c (periodic Lipschitz, axis by axis)", _by_axes(v, lattice, periodic_factor)


def lipschitz_factor(axis: Axis) -> float:
    """c(t) of T1c: 1/2 at w_k = 0, else sqrt((1 + cot x (cot x - 1/x))/2), from 0.577 to 0.707 up to |w_k| = m/2."""
    if axis.resonant:
        return 0.5
    f = trig.cot_minus_reciprocal(axis)
    return math.sqrt((1.0 + (f + 1.0 / axis.x) * f) / 2.0)


def periodic_factor(axis: Axis) -> float:
    """c(t) of T3: 1/4 at w_k = 0, else sqrt(csc^2 x - x^-2)/2, from 0.289 to 0.386 up to |w_k| = m/2."""
    return 0.25 if axis.resonant else math.sqrt(trig.csc_squared_minus_reciprocal(axis)) / 2.0


def _mean_increment(v: Smoothness, lattice: Lattice) -> float:
    """Mean of |v - v_j| over cells with corner xi_j."""
    along_axes = sum(lip / (2.0 * m) for lip, m in zip(v.axes, lattice.sides, strict=True))
    return min(along_axes, v.euclidean * mean_distance(lattice))


def _rms_increment(v: Smoothness, lattice: Lattice) -> float:
    """Root mean square of v - v_j over cells with corner xi_j."""
    steps = [lip / m for lip, m in zip(v.axes, lattice.sides, strict=True)]
    # E[(sum a_k y_k)^2] for independent uniform y_k: mean (sum a_k/2)^2 and variance sum a_k^2/12.
    along_axes = math.hypot(sum(steps) / 2.0, math.hypot(*steps) / math.sqrt(12.0))
    return min(along_axes, v.euclidean * math.hypot(*(1.0 / m for m in lattice.sides)) / math.sqrt(3.0))


def _by_means(v: Smoothness, lattice: Lattice, reach: float, defect: float) -> float:
    # inf * 0 is nan: at w = 0 the coefficient does not matter, known or not.
    second = defect * coefficient_bound(v, lattice) if defect else 0.0
    return reach * _mean_increment(v, lattice) + second


def _by_squares(v: Smoothness, lattice: Lattice, reach: float, defect: float) -> float:
    second = math.sqrt(2.0 * defect) * effective_sup(v, lattice) if defect > 0 else 0.0
    return math.hypot(reach * _rms_increment(v, lattice), second)


def _by_axes(v: Smoothness, lattice: Lattice, factor: Callable[[Axis], float]) -> float:
    total = 0.0
    for axis, lipschitz in zip(lattice.axes, v.axes, strict=True):
        total += lipschitz * factor(axis) / axis.side
        if axis.aliased:
            total += effective_sup(v, lattice)
    return total
