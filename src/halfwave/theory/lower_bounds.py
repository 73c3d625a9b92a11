"""How large the discretization error of a Lipschitz function can be: lower bounds with the functions that attain them.

For every d, grid and w there is a v with |v| <= M and Lipschitz constant L whose Disc is at least the bound, so no
upper bound can decay faster than 1/m (the paper left w > 1 open).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfwave.theory import trigonometry as trig
from halfwave.theory.bound import Bound, Number, all_known, outward_down, read_number
from halfwave.theory.lattice import Integers, Lattice, read_lattice
from halfwave.theory.lipschitz import mean_distance_below

Field = NDArray[np.float64]


@dataclass(frozen=True)
class Ramp:
    """v(x) = sum_k slopes_k (x_k - 1/2). Points (..., d) -> values (...)."""

    slopes: tuple[float, ...]

    def __call__(self, points: Field) -> Field:
        return (np.asarray(points, dtype=np.float64) - 0.5) @ np.asarray(self.slopes)


@dataclass(frozen=True)
class Teeth:
    """v(x) = height (dist(x, grid) - lift) cos(2 pi <w,x> + phase): constant on the grid, a tooth between.

    Points (..., d) -> values (...); dist is the Euclidean distance from the nearest point of the (infinite) grid.
    """

    height: float
    lift: float
    frequency: tuple[int, ...]
    sides: tuple[int, ...]
    phase: float

    def __call__(self, points: Field) -> Field:
        x = np.asarray(points, dtype=np.float64)
        sides = np.asarray(self.sides)
        distance = np.linalg.norm((x * sides - np.round(x * sides)) / sides, axis=-1)
        wave = np.cos(2.0 * np.pi * (x @ np.asarray(self.frequency)) + self.phase)
        return self.height * (distance - self.lift) * wave


def lower_bound_discretization(frequency: Integers, grid: Integers, *, sup: Number, lipschitz: Number) -> Bound:
    """The largest of the known lower bounds on sup Disc(v, w) over |v| <= sup with Euclidean constant `lipschitz`.

    - any w: (A/4) min(L/sqrt(1 + pi^2 D^2 |w|^2), 2M/D), A the mean distance from the corner over a cell and
      D its diagonal (A_d/m and sqrt(d)/m on cubic grids), by `Teeth`;
    - w = p e_k, p != 0 mod m_k: min(L, 2M)/(2 m_k) sqrt(1 + (cot x_k - 1/x_k)^2), by a `Ramp`;
    - w = 0: (1/2) mean_k(1/m_k) min(L sqrt(d), 2M) by a `Ramp`, or (A/2) min(L, 4M/D) by `Teeth`.

    The result's `witness` is the function that attains it.
    """
    lattice = read_lattice(frequency, grid)
    size = read_number("sup", sup)
    slope = read_number("lipschitz", lipschitz)
    candidates = [_teeth(lattice, size, slope)]
    if lattice.zero:
        candidates += [_diagonal_ramp(lattice, size, slope), _lifted_teeth(lattice, size, slope)]
    moving = [position for position, axis in enumerate(lattice.axes) if axis.frequency != 0]
    if len(moving) == 1 and not lattice.axes[moving[0]].aliased:
        candidates.append(_axis_ramp(lattice, moving[0], size, slope))
    theorem, value, witness = max(candidates, key=lambda candidate: candidate[1])
    assumptions = (f"v ranges over |v| <= {size:.6g} with Lipschitz constant {slope:.6g}",)
    known = all_known(sup, lipschitz)
    return Bound(outward_down(value), theorem, assumptions, known, kind="lower", witness=witness)


_Candidate = tuple[str, float, Callable[[Field], Field]]


def _teeth(lattice: Lattice, sup: float, lipschitz: float) -> _Candidate:
    """v vanishes on the grid; int v phi = (height/2)(e^{-i phase} int g + e^{i phase} int g phi^2), phases aligned."""
    diagonal = math.sqrt(sum(1.0 / (m * m) for m in lattice.sides))
    w = tuple(axis.frequency for axis in lattice.axes)
    stretch = math.hypot(1.0, math.pi * diagonal * math.hypot(*w))
    height = min(lipschitz / stretch, 2.0 * sup / diagonal)
    witness = Teeth(height, 0.0, w, lattice.sides, _aligned_phase(lattice))
    return "T5 (lower bound, teeth)", height * mean_distance_below(lattice) / 4.0, witness


def _aligned_phase(lattice: Lattice) -> float:
    """Half the argument that makes e^{2 i phase} int g phi^2 positive; g is even, so that integral is real.

    int g phi^2 vanishes unless the sum over cells of phi^2(xi_j) does not, that is unless 2w = 0 mod m.
    """
    if any(2 * axis.frequency % axis.side for axis in lattice.axes):
        return 0.0
    return math.pi / 2.0 if _tooth_coefficient(lattice) < 0 else 0.0


def _tooth_coefficient(lattice: Lattice, order: int = 24) -> float:
    """The sign of int |y| cos(4 pi <w,y>) over a cell centred at 0, by Gauss-Legendre; a zero sign costs nothing.

    |y| is even in every coordinate, so the cosine may be replaced by prod cos(4 pi w_k y_k) on the positive orthant.
    """
    nodes, weights = np.polynomial.legendre.leggauss(order)
    square, product = np.zeros((1,) * lattice.dimension), np.ones((1,) * lattice.dimension)
    for position, axis in enumerate(lattice.axes):
        y = (nodes + 1.0) / (4.0 * axis.side)
        shape = [1] * lattice.dimension
        shape[position] = order
        square = square + (y * y).reshape(shape)
        product = product * (weights * np.cos(4.0 * np.pi * axis.frequency * y)).reshape(shape)
    return float(np.sum(np.sqrt(square) * product))


def _lifted_teeth(lattice: Lattice, sup: float, lipschitz: float) -> _Candidate:
    """w = 0: lowering the teeth by half their height halves sup|v| and leaves the error as it is."""
    diagonal = math.sqrt(sum(1.0 / (m * m) for m in lattice.sides))
    height = min(lipschitz, 4.0 * sup / diagonal)
    witness = Teeth(height, diagonal / 4.0, (0,) * lattice.dimension, lattice.sides, 0.0)
    return "T5 (lower bound, lowered teeth)", height * mean_distance_below(lattice) / 2.0, witness


def _diagonal_ramp(lattice: Lattice, sup: float, lipschitz: float) -> _Candidate:
    root = math.sqrt(lattice.dimension)
    slope = min(lipschitz, 2.0 * sup / root) / root
    witness = Ramp((slope,) * lattice.dimension)
    return "T5 (lower bound, ramp)", slope * sum(1.0 / (2.0 * m) for m in lattice.sides), witness


def _axis_ramp(lattice: Lattice, position: int, sup: float, lipschitz: float) -> _Candidate:
    axis = lattice.axes[position]
    slope = min(lipschitz, 2.0 * sup)
    slopes = [0.0] * lattice.dimension
    slopes[position] = slope
    value = slope / (2.0 * axis.side) * math.hypot(1.0, trig.cot_minus_reciprocal(axis))
    return "T5 (lower bound, ramp)", value, Ramp(tuple(slopes))
