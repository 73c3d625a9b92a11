"""The trigonometric factors of the discretization bounds, without cancellation.

Written as in the theorems, cot x - 1/x or 1 - Re kappa lose most digits on fine grids (x = pi w/m is small), and a
bound that is off in its eighth digit is not a bound. Each function here is accurate to a few units of float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.special import zeta

from halfwave.theory.lattice import Axis, Lattice

# cot x - 1/x = -sum_n 2 zeta(2n) x^(2n-1) / pi^(2n): at |x| <= 1/2 the 14th term is below 1e-22.
_COT_SERIES = tuple(2.0 * float(zeta(2 * n)) / math.pi ** (2 * n) for n in range(1, 15))
_SMALL = 0.5


def cot_minus_reciprocal(axis: Axis) -> float:
    """f(x) = cot x - 1/x, x = pi w/m; not for resonant axes (a pole, or 0 at w = 0)."""
    x = axis.x
    if abs(x) > _SMALL:
        return 1.0 / math.tan(axis.reduced_x) - 1.0 / x
    square = x * x
    total = 0.0
    for coefficient in reversed(_COT_SERIES):
        total = total * square + coefficient
    return -x * total


def csc_squared_minus_reciprocal(axis: Axis) -> float:
    """csc^2 x - x^-2 = 1 + f (f + 2/x), between 1/3 (x -> 0) and 0.595 (x = pi/2)."""
    f = cot_minus_reciprocal(axis)
    return 1.0 + f * (f + 2.0 / axis.x)


def one_minus_sinc(x: float) -> float:
    """1 - sin(x)/x."""
    if abs(x) > _SMALL:
        return 1.0 - math.sin(x) / x
    square, term, total = x * x, 1.0, 0.0
    for n in range(1, 10):
        term *= -square / ((2 * n) * (2 * n + 1))
        total -= term
    return total


def corner_defect(lattice: Lattice) -> complex:
    """kappa - 1, kappa = prod_k e^{i x_k} sinc(t_k): a mode averaged over a cell against its value at the corner."""
    defects = (_corner_defect(axis) for axis in lattice.axes)
    return _product_minus_one(defects)


def centre_defect(lattice: Lattice) -> float:
    """prod_k sinc(t_k) - 1: a mode averaged over a cell against its value in the middle."""
    defects = (complex(-1.0 if axis.aliased else -one_minus_sinc(axis.x), 0.0) for axis in lattice.axes)
    return _product_minus_one(defects).real


def _corner_defect(axis: Axis) -> complex:
    """e^{ix} sin(x)/x - 1 = -(1 - sinc 2x) + i sin^2(x)/x, with sinc y = sin(y)/y."""
    if axis.frequency == 0:
        return 0j
    if axis.aliased:
        return complex(-1.0, 0.0)
    return complex(-one_minus_sinc(2.0 * axis.x), math.sin(axis.reduced_x) ** 2 / axis.x)


def _product_minus_one(defects: Iterable[complex]) -> complex:
    """prod (1 + a_k) - 1 from the a_k: no 1 is ever added, so nothing is cancelled."""
    total = 0j
    for defect in defects:
        total = total + defect + total * defect
    return total
