"""The two errors themselves, measured: what the bounds of this package bound.

Disc(v, w) = |int_D v phi_w dx - (1/n) sum_j v(xi_j) phi_w(xi_j)|, phi_w = e^{2 pi i <w,x>};
Prec(v, w) = |the same grid coefficient in exact arithmetic - computed in a number format|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfwave.errors import InputError
from halfwave.numerics import Format
from halfwave.theory.bound import Estimate
from halfwave.theory.emulator import emulated_coefficient, emulated_fft
from halfwave.theory.interpolant import Interpolant
from halfwave.theory.lattice import Integers, Lattice, read_lattice
from halfwave.theory.precision import Algorithm, read_algorithm
from halfwave.theory.roundoff import read_format

Function = Callable[[NDArray[np.float64]], Any]


def discretization_error(
    v: Interpolant | Function | ArrayLike,
    frequency: Integers,
    grid: Integers,
    *,
    exact: complex | None = None,
    order: int = 6,
) -> Estimate:
    """Disc(v, w) in float64.

    Args:
        v: an `Interpolant` (one function; its integral is in closed form); a callable of points (..., d) with values
            (...); or samples on a finer grid whose sides are multiples of `grid` (then the fine grid's coefficient
            stands for the integral).
        frequency, grid: as in `bound_discretization`.
        exact: the integral, where it is known.
        order: Gauss-Legendre nodes per cell and axis, for a callable without `exact`.
    """
    lattice = read_lattice(frequency, grid)
    if isinstance(v, Interpolant):
        integral = complex(v.fourier(frequency)[0]) if exact is None else exact
        return Estimate(abs(integral - complex(v.coefficient(frequency, lattice.sides)[0])), "exact integral")
    if callable(v):
        coarse = grid_coefficient(np.asarray(v(grid_points(lattice.sides))), lattice)
        if exact is not None:
            return Estimate(abs(exact - coarse), "exact integral given")
        return Estimate(abs(_gauss_integral(v, lattice, order) - coarse), f"integral by {order} Gauss nodes a cell")
    samples = np.asarray(v, dtype=np.float64)
    coarse = grid_coefficient(_coarsened(samples, lattice), lattice)
    if exact is not None:
        return Estimate(abs(exact - coarse), "exact integral given")
    fine = grid_coefficient(samples, read_lattice([axis.frequency for axis in lattice.axes], samples.shape))
    return Estimate(abs(fine - coarse), f"against the grid {samples.shape}")


def precision_error(
    v: Function | ArrayLike,
    frequency: Integers,
    grid: Integers,
    format: str | Format,
    algorithm: str | Algorithm = "inputs",
) -> Estimate:
    """Prec(v, w) in float64, the format emulated bit for bit.

    Args:
        v: a callable of points (..., d), or its values on the grid.
        algorithm: ``"inputs"`` (v and phi rounded, the rest exact: the paper's definition), ``"gemm"``, ``"fft"``, or
            an `Algorithm` with its options (accumulator, prescale, rounded products, cast of the output).
    """
    lattice = read_lattice(frequency, grid)
    target, chosen = read_format(format), read_algorithm(algorithm)
    values = np.asarray(v(grid_points(lattice.sides)) if callable(v) else v, dtype=np.float64)
    if values.shape != lattice.sides:
        raise InputError(f"v has shape {values.shape} on grid {lattice.sides}: expected the same")
    exact = grid_coefficient(values, lattice)
    if chosen.name == "fft":
        spectrum = emulated_fft(values * chosen.scale, target)
        # The emulator has e^{-2 pi i}; the definition has e^{+2 pi i}.
        position = tuple(-axis.frequency % axis.side for axis in lattice.axes)
        computed = complex(spectrum[position]) / (lattice.points * chosen.scale)
    else:
        computed = emulated_coefficient(values, modes_on_grid(lattice), target, chosen)
    return Estimate(abs(computed - exact), f"{chosen.name} emulated in {target.name}")


def grid_points(sides: tuple[int, ...]) -> NDArray[np.float64]:
    """xi_j = j/m, shape (*sides, d)."""
    return np.stack(np.meshgrid(*[np.arange(m) / m for m in sides], indexing="ij"), axis=-1)


def modes_on_grid(lattice: Lattice) -> NDArray[np.complex128]:
    """phi_w(xi_j), shape (*sides); the phase is reduced in integers, so that +-1 and +-i come out exactly."""
    phase = np.ones((1,) * lattice.dimension, dtype=np.complex128)
    for position, axis in enumerate(lattice.axes):
        shape = [1] * lattice.dimension
        shape[position] = axis.side
        phase = phase * unit_roots(axis.frequency * np.arange(axis.side), axis.side).reshape(shape)
    return phase


def unit_roots(numerators: NDArray[np.int64], side: int) -> NDArray[np.complex128]:
    """e^{2 pi i k/m} for integers k, exact on the axes."""
    reduced = np.asarray(numerators) % side
    roots = np.exp(2j * np.pi * reduced / side)
    for quarter, value in enumerate((1.0, 1j, -1.0, -1j)):
        roots[4 * reduced == quarter * side] = value
    return roots


def grid_coefficient(values: NDArray[np.float64], lattice: Lattice) -> complex:
    """v_h(w) = (1/n) sum_j v(xi_j) phi_w(xi_j)."""
    if values.shape != lattice.sides:
        raise InputError(f"v has shape {values.shape} on grid {lattice.sides}: expected the same")
    result: NDArray[np.complex128] = values.astype(np.complex128)
    for axis in reversed(lattice.axes):
        result = result @ unit_roots(axis.frequency * np.arange(axis.side), axis.side) / axis.side
    return complex(result)


def _coarsened(samples: NDArray[np.float64], lattice: Lattice) -> NDArray[np.float64]:
    fits = samples.ndim == lattice.dimension
    if not fits or any(fine % m for fine, m in zip(samples.shape, lattice.sides, strict=True)):
        raise InputError(f"samples of shape {samples.shape} do not refine grid {lattice.sides}: multiples are needed")
    return samples[tuple(slice(None, None, fine // m) for fine, m in zip(samples.shape, lattice.sides, strict=True))]


def _gauss_integral(v: Function, lattice: Lattice, order: int) -> complex:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    per_axis = [(np.arange(m)[:, None] + (nodes + 1.0) / 2.0).ravel() / m for m in lattice.sides]
    points = np.stack(np.meshgrid(*per_axis, indexing="ij"), axis=-1)
    result: NDArray[np.complex128] = np.asarray(v(points)).astype(np.complex128)
    for axis, x in zip(reversed(lattice.axes), reversed(per_axis), strict=True):
        share = np.tile(weights / 2.0, axis.side) / axis.side
        result = result @ (share * np.exp(2j * np.pi * axis.frequency * x))
    return complex(result)
