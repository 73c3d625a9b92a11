"""Random functions, grids and frequencies, and the largest observed/bound over them: shared by tests and benchmarks.

Functions are multilinear interpolants: their Fourier integrals and their constants are exact in closed form.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from halfwave.theory import (
    Interpolant,
    bound_discretization,
)
from halfwave.theory.lattice import Lattice, read_lattice
from halfwave.theory.lipschitz import Smoothness, effective_sup, lipschitz_bounds
from halfwave.theory.smooth import derivative_bounds, sobolev_bound
from halfwave.theory.variation import variation_bounds

# Error of the float64 reference itself, in units of sup|v|.
REFERENCE = 2e-15


@dataclass
class Tally:
    """The largest observed/bound for each label, and how many cases were looked at."""

    worst: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cases: int = 0

    def add(self, label: str, observed: float, bound: float) -> None:
        ratio = 0.0 if observed <= 0 else (math.inf if bound == 0 else observed / bound)
        self.worst[label] = max(self.worst[label], ratio)


def frequency_range(lattice: Lattice) -> str:
    if lattice.zero:
        return "w=0"
    if any(axis.aliased for axis in lattice.axes):
        return "aliased"
    inside = all(2 * abs(axis.frequency) <= axis.side for axis in lattice.axes)
    return "|w|<=m/2" if inside else "beyond"


def draw_lattice(rng: np.random.Generator, dimension: int) -> Lattice:
    largest = {1: 40, 2: 10, 3: 5}[dimension]
    sides = rng.integers(1, largest + 1, size=dimension)
    if rng.random() < 0.5:
        sides[:] = sides[0]
    kind = rng.integers(4)
    if kind == 0:
        w = np.zeros(dimension, dtype=int)
    elif kind == 1:
        w = np.array([rng.integers(-(m // 2), m // 2 + 1) for m in sides])
        if rng.random() < 0.3:
            w[np.arange(dimension) != rng.integers(dimension)] = 0
    elif kind == 2:
        w = rng.integers(-2, 3, size=dimension) * sides
    else:
        w = rng.integers(-3 * largest, 3 * largest + 1, size=dimension)
    return read_lattice([int(x) for x in w], [int(m) for m in sides])


def draw_functions(rng: np.random.Generator, lattice: Lattice, count: int, periodic: bool) -> Interpolant:
    """`count` functions of one kind on one set of nodes: rough, walks, teeth, steps, ramps; any size and offset."""
    d = lattice.dimension
    factor = int(rng.integers(1, 4))
    nodes = [m * factor if rng.random() < 0.6 else int(rng.integers(1, 13)) for m in lattice.sides]
    nodes = [max(2, min(k, {1: 160, 2: 24, 3: 12}[d])) for k in nodes]
    shape = (count, *[k if periodic else k + 1 for k in nodes])
    kind = rng.integers(6)
    if kind == 0:
        values = rng.standard_normal(shape)
    elif kind == 1:
        values = sum(rng.standard_normal(shape).cumsum(axis=k + 1) for k in range(d))
    elif kind == 2:
        values = rng.integers(0, 2, size=shape) * 1.0
    elif kind == 3:
        values = _teeth(shape, nodes, lattice) + 0.02 * rng.standard_normal(shape) * rng.integers(0, 2)
    elif kind == 4:
        values = _ramps(rng, shape, count, d)
    else:
        values = np.cumsum(rng.choice([-1.0, 1.0], size=shape), axis=int(rng.integers(1, d + 1)))
    values = values * 10.0 ** rng.uniform(-3, 3, size=(count,) + (1,) * d)
    if rng.random() < 0.3:
        values = values + rng.standard_normal((count,) + (1,) * d) * 10.0 ** rng.uniform(-2, 2)
    if periodic:
        values = np.pad(values, [(0, 0)] + [(0, 1)] * d, mode="wrap")
    return Interpolant(values, periodic)


def _teeth(shape: tuple[int, ...], nodes: list[int], lattice: Lattice) -> np.ndarray:
    total = np.zeros(shape)
    for k, (count, m) in enumerate(zip(nodes, lattice.sides, strict=True)):
        x = np.arange(shape[k + 1]) / count
        bent = np.abs(x * m - np.round(x * m)) / m * np.cos(np.pi * np.round(2 * x * lattice.axes[k].frequency))
        total = total + bent.reshape([-1 if axis == k + 1 else 1 for axis in range(len(shape))])
    return total


def _ramps(rng: np.random.Generator, shape: tuple[int, ...], count: int, d: int) -> np.ndarray:
    total = np.zeros(shape)
    keep = rng.integers(0, 2, size=d) if rng.random() < 0.7 else np.ones(d)
    for k in range(d):
        slope = rng.standard_normal((count,) + (1,) * d) * keep[k]
        total = total + slope * np.linspace(0, 1, shape[k + 1]).reshape([-1 if a == k + 1 else 1 for a in range(d + 1)])
    return total


def check_discretization(rng: np.random.Generator, tally: Tally, dimension: int, count: int) -> None:
    """`count` functions on one random grid and frequency against every theorem that applies to them."""
    lattice = draw_lattice(rng, dimension)
    periodic = bool(rng.integers(2))
    v = draw_functions(rng, lattice, count, periodic)
    w = [axis.frequency for axis in lattice.axes]
    coefficients = v.coefficient(w, lattice.sides)
    sups = v.sup()
    observed = np.abs(v.fourier(w) - coefficients) - REFERENCE * (1 + dimension) * sups
    where = f"d={dimension} {frequency_range(lattice)}"
    constants = zip(v.lipschitz(), v.euclidean_lipschitz(), v.variation(), sups, coefficients, strict=True)
    for error, (axes, euclid, tv, sup, coefficient) in zip(observed, constants, strict=True):
        axes, tv = tuple(axes.tolist()), tuple(tv.tolist())
        for theorem, value in _each_theorem(lattice, axes, float(euclid), tv, float(sup), coefficient, periodic):
            tally.add(f"{theorem.split()[0]} {where}", error, value)
        best = bound_discretization(w, lattice.sides, sup=float(sup), lipschitz=axes, variation=tv, periodic=periodic)
        tally.add(f"best {where}", error, float(best))
        tally.cases += 1
    if periodic:
        _check_slopes(v, lattice, observed, sups, where, tally)


def _each_theorem(lattice, axes, euclid, tv, sup, coefficient, periodic):
    """Every theorem on its own, with the least it needs and with all there is."""
    infinite = math.inf
    for known_sup in (sup, infinite):
        for known_coefficient in (abs(coefficient) * (1 + 1e-13) + 1e-15 * sup, infinite):
            for v in (
                Smoothness(axes, math.hypot(*axes), known_sup, known_coefficient, periodic),
                Smoothness((euclid,) * lattice.dimension, euclid, known_sup, known_coefficient, periodic),
            ):
                yield from lipschitz_bounds(v, lattice)
        yield from variation_bounds(tv, known_sup, lattice, periodic)


def _check_slopes(v, lattice, observed, sups, where, tally):
    """T4 with k = 2: the slope of a piecewise linear function has bounded variation, which is all it needs."""
    for error, size, sup in zip(observed, v.slope_variation(), sups, strict=True):
        known = Smoothness((math.inf,) * lattice.dimension, math.inf, float(sup), math.inf, True)
        for _, value in derivative_bounds({2: tuple(size.tolist())}, effective_sup(known, lattice), lattice):
            tally.add(f"T4 {where}", error, value)


def check_smooth(rng: np.random.Generator, tally: Tally, dimension: int, count: int) -> None:
    """Real trigonometric polynomials against T4: k = 2..4 in one dimension, Sobolev norms in any."""
    lattice = draw_lattice(rng, dimension)
    reach = {1: 3, 2: 2, 3: 1}[dimension]
    modes = _modes(rng, lattice, reach)
    decay = rng.uniform(0, 4)
    sizes = (1 + np.linalg.norm(modes, axis=1)) ** -decay
    coefficients = (rng.standard_normal((count, len(modes))) + 1j * rng.standard_normal((count, len(modes)))) * sizes
    if rng.random() < 0.3:
        coefficients = np.abs(coefficients) + 0j
    # v^(-q) is the conjugate of v^(q) for real v: every mode enters with its mirror image.
    both = np.concatenate([modes, -modes])
    values = np.concatenate([coefficients, coefficients.conj()], axis=1) / 2
    w, sides = np.array([axis.frequency for axis in lattice.axes]), np.array(lattice.sides)
    # The coefficient of e^{2 pi i q x} under the mode e^{2 pi i w x} is that of -w.
    alias = np.all((both + w) % sides == 0, axis=1) & np.any(both != -w, axis=1)
    observed = np.abs(values[:, alias].sum(axis=1))
    tally.cases += count
    where = f"d={dimension}"
    s = dimension / 2 + rng.uniform(0.3, 3)
    merged = _merged(both, values)
    for error, spectrum in zip(observed, merged[1], strict=True):
        lengths = 2 * np.pi * np.linalg.norm(merged[0], axis=1)
        norm = math.sqrt(float(np.sum(lengths ** (2 * s) * np.abs(spectrum) ** 2)))
        mean = abs(spectrum[lengths == 0].sum())
        tally.add(f"T4s {where}", error * (1 - 1e-12), sobolev_bound(lattice, s, norm, mean))
        if dimension == 1:
            for k in (2, 3, 4):
                size = math.sqrt(float(np.sum(lengths ** (2 * k) * np.abs(spectrum) ** 2)))
                ((_, value),) = derivative_bounds({k: (size,)}, mean, lattice)
                tally.add(f"T4 k={k} {where}", error * (1 - 1e-12), value)


def _modes(rng: np.random.Generator, lattice: Lattice, reach: int) -> np.ndarray:
    """Mostly aliases of -w, which the grid confuses with it, and some others."""
    shifts = rng.integers(-reach, reach + 1, size=(12, lattice.dimension))
    w, sides = np.array([axis.frequency for axis in lattice.axes]), np.array(lattice.sides)
    others = rng.integers(-9, 10, size=(4, lattice.dimension))
    return np.concatenate([-w + shifts * sides, others])


def _merged(modes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    unique, inverse = np.unique(modes, axis=0, return_inverse=True)
    merged = np.zeros((values.shape[0], len(unique)), dtype=complex)
    for column, target in enumerate(inverse.ravel()):
        merged[:, target] += values[:, column]
    return unique, merged
