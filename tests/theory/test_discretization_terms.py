"""Each term of each discretization theorem, on its own: a function that reaches at least half of it."""

import math

import numpy as np
import pytest
from adversary import reaches

from halfwave.theory import Interpolant, bound_discretization
from halfwave.theory.lattice import read_lattice
from halfwave.theory.lipschitz import Smoothness, coefficient_bound, lipschitz_bounds, mean_distance
from halfwave.theory.smooth import derivative_bounds, sobolev_bound, sobolev_sum
from halfwave.theory.variation import variation_bounds

M = 8


def theorem(name, w, *, sup=math.inf, lipschitz=1.0, coefficient=math.inf, periodic=False, sides=(M,)):
    v = Smoothness((lipschitz,) * len(sides), lipschitz, sup, coefficient, periodic)
    found = {key.split()[0]: value for key, value in lipschitz_bounds(v, read_lattice(w, sides))}
    return found[name] * (1 + 1e-12)


def ramp_error(w, m=M):
    """Disc of v = x."""
    x = Interpolant.from_samples([0.0, 1.0])
    return float(abs(x.fourier(w)[0] - x.coefficient(w, m)[0]))


def teeth_error(w=0):
    v = Interpolant.from_samples(np.tile([0.0, 1 / (2 * M)], M), periodic=True)
    return float(abs(v.fourier(w)[0] - v.coefficient(w, M)[0]))


@pytest.mark.parametrize("name", ["T1a", "T1b", "T1c"])
def test_increments_of_lipschitz_functions(name):
    """v = x at w = 0 is off by 1/(2m)."""
    reaches(ramp_error(0), theorem(name, 0), theorem(name, 0))


@pytest.mark.parametrize("name", ["T3a", "T3b", "T3c"])
def test_increments_of_periodic_functions(name):
    """Teeth between the grid points at w = 0 are off by 1/(4m)."""
    reaches(teeth_error(), theorem(name, 0, periodic=True), theorem(name, 0, periodic=True))


def test_defect_of_a_cell():
    """v = x at the highest frequency is off by 0.593/m: more than its increments, 1/(2m), explain in T1a."""
    coefficient = abs(Interpolant.from_samples([0.0, 1.0]).coefficient(M // 2, M)[0])
    observed = ramp_error(M // 2)
    reaches(observed, abs(1 - 2j / np.pi) * coefficient, theorem("T1a", M // 2, coefficient=coefficient))
    assert observed > 1.1 / (2 * M)


@pytest.mark.parametrize("name", ["T1b", "T1c", "T3a", "T3b", "T3c", "T1a"])
def test_constants_at_an_aliased_frequency(name):
    """v = 1 at w = m: the integral is 0, the grid says 1, and no increment explains that."""
    bound = theorem(name, M, sup=1.0, lipschitz=0.0, periodic=True)
    reaches(1.0, bound, bound)


@pytest.mark.parametrize(("name", "reached"), [("T1c", 0.8), ("T3c", 0.5)])
def test_factor_of_an_axis(name, reached):
    """Away from w = 0 the factor is larger than there: a ramp, or teeth that follow the sign of the mode."""
    if name == "T1c":
        observed = ramp_error(M // 2)
        assert observed > theorem(name, 0)
    else:
        signs = np.repeat(np.tile([1.0, -1.0], M // 2), 2) * np.tile([0.0, 1 / (2 * M)], M)
        v = Interpolant.from_samples(np.roll(signs, 0), periodic=True)
        observed = float(abs(v.fourier(M // 2)[0] - v.coefficient(M // 2, M)[0]))
    bound = theorem(name, M // 2, periodic=name == "T3c")
    assert reached * bound <= observed <= bound


def test_two_axes_add_up():
    """x + y at w = 0 is off by 1/(2m) for each axis."""
    bound = bound_discretization((0, 0), (M, 2 * M), lipschitz=(1.0, 1.0))
    reaches(1 / (2 * M) + 1 / (4 * M), 1 / (2 * M) + 1 / (4 * M), bound)


def test_mean_distance_on_boxes():
    """v = |x| in the corner cell's own way: the mean distance itself, on a box with one long side."""
    grid = np.stack(np.meshgrid(*[(np.arange(400) + 0.5) / 400] * 2, indexing="ij"), axis=-1)
    for sides in [(4, 4), (2, 9)]:
        mean = np.linalg.norm(grid / np.array(sides), axis=-1).mean()
        reaches(
            mean * (1 - 1e-5), mean_distance(read_lattice((0, 0), sides)), mean_distance(read_lattice((0, 0), sides))
        )


def test_sup_alone():
    """v = -sign(cos) between the grid points and +sign(cos) on them: m = 2, w = 1, off by 2/pi + 1."""
    reaches(2 / math.pi + 1, 1 + 2 / math.pi, bound_discretization(1, 2, sup=1.0))
    reaches(2.0, 2.0, bound_discretization(0, 2, sup=1.0))


@pytest.mark.parametrize("periodic", [False, True])
def test_coefficients_of_lipschitz_functions(periodic):
    """Two points, w = 1: the coefficient is half their difference, and that is half of L."""
    v = Smoothness((1.0,), 1.0, math.inf, math.inf, periodic)
    found = coefficient_bound(v, read_lattice(1, 2))
    reaches(0.25, found, found * (1 + 1e-12))


def variation(name, w, m, tv, sup=math.inf, periodic=True):
    found = dict(variation_bounds((tv,), sup, read_lattice(w, m), periodic))
    return next(value for key, value in found.items() if key.startswith(name)) * (1 + 1e-12)


def test_jumps():
    """One just after a grid point at w = 0; one inside a cell beyond the range of the grid; one cell up and down."""
    reaches(1 / M, variation("T2 ", 0, M, 1.0), variation("T2 ", 0, M, 1.0))
    error = abs(1 / 2 - (np.exp(2j * np.pi * 3 * 0.25) - 1) / (6j * np.pi))
    reaches(error, variation("T2 ", 3, 2, 1.0), variation("T2 ", 3, 2, 1.0))
    assert error > 0.9 * variation("T2 ", 3, 2, 1.0)
    reaches(1 / M, variation("T2p", 0, M, 2.0), variation("T2p", 0, M, 2.0))
    # v = 1 between two neighbouring grid points, 0 on all: int v phi, of modulus sin(x)/x / m.
    inside = math.sin(math.pi / 2) / (math.pi / 2) / M
    reaches(inside, variation("T2p", M // 2, M, 2.0), variation("T2p", M // 2, M, 2.0))


@pytest.mark.parametrize("name", ["T2 ", "T2p"])
def test_jumps_at_an_aliased_frequency(name):
    reaches(1.0, 1.0, variation(name, M, M, 0.0, sup=1.0))


def test_aliases_of_smooth_functions():
    """A triangle wave at its own frequency is off by all that two derivatives allow; a constant at w = m by itself."""
    v = Interpolant.from_samples(np.tile([1.0, -1.0], 8), periodic=True)
    observed = float(abs(v.fourier(8)[0] - v.coefficient(8, 16)[0]))
    ((_, bound),) = derivative_bounds({2: (float(v.slope_variation()[0, 0]),)}, 0.0, read_lattice(8, 16))
    reaches(observed, bound, bound * (1 + 1e-12))
    ((_, bound),) = derivative_bounds({2: (0.0,)}, 1.0, read_lattice(M, M))
    reaches(1.0, bound, bound)
    reaches(1.0, 1.0, sobolev_bound(read_lattice(M, M), 2.0, 0.0, 1.0))


@pytest.mark.parametrize("w", [0, 3, 11, 8])
def test_aliases_in_a_sobolev_norm(w):
    """v^(q) = |q|^(-2s) on the aliases: equality in Cauchy-Schwarz."""
    s, steps = 1.5, np.arange(-4000, 4001)
    aliases = w + M * steps[(steps != 0) & (w + M * steps != 0)]
    lengths = 2 * np.pi * np.abs(aliases).astype(float)
    norm = math.sqrt(np.sum(lengths ** (-2 * s)))
    bound = sobolev_bound(read_lattice(w, M), s, norm, 0.0)
    reaches(np.sum(lengths ** (-2 * s)) * (1 - 1e-12), bound, bound)


def test_tail_of_a_sobolev_sum():
    """Two dimensions: the terms beyond those that are taken one by one, at least half of what they are said to be."""
    s, m, taken = 1.4, 3, 200
    _, total = sobolev_sum(read_lattice((0, 0), (m, m)), s)
    q = np.arange(0, 3001).astype(float)
    squares = q[:, None] ** 2 + q**2
    weights = np.where(q[:, None] == 0, 0.5, 1.0) * np.where(q == 0, 0.5, 1.0) * 4
    squares[0, 0] = np.inf
    near = np.sum((weights * squares**-s)[: taken + 1, : taken + 1])
    far = np.sum(weights * squares**-s) - near
    assert near + far <= total * (1 + 1e-12)
    assert far >= 0.5 * (total - near) > 0
