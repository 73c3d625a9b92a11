"""Discretization bounds against exact errors: thousands of random functions, the equality cases, the lower bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property_search import search
from random_cases import check_discretization, check_smooth

from halfwave.theory import Interpolant, bound_discretization, discretization_error, lower_bound_discretization
from halfwave.theory.lattice import read_lattice
from halfwave.theory.lipschitz import mean_distance
from halfwave.theory.lower_bounds import Ramp, Teeth

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("dimension", "examples"), [(1, 160), (2, 160), (3, 80)])
def test_every_theorem_holds_on_random_functions(dimension, examples):
    """20 functions an example, each against every theorem, with and without sup and coefficient."""
    assert search(check_discretization, dimension, 20, examples=examples) >= 20 * examples


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_smooth_functions_obey_their_theorem(dimension):
    """20 trigonometric polynomials an example."""
    assert search(check_smooth, dimension, 20, examples=40) >= 800


def _ratio(v, frequency, grid, **constants):
    observed = float(discretization_error(v, frequency, grid))
    bound = float(bound_discretization(frequency, grid, **constants))
    assert observed <= bound
    return observed / bound


@pytest.mark.parametrize("d", [1, 2, 3])
def test_t1_is_attained_by_a_ramp_at_zero_frequency(d):
    nodes = sum(np.meshgrid(*[np.array([0.0, 1.0])] * d, indexing="ij"))
    ratio = _ratio(Interpolant.from_samples(nodes), (0,) * d, 8, lipschitz=(1.0,) * d)
    assert ratio > 0.999999


@pytest.mark.parametrize(("d", "reached"), [(1, 0.866), (2, 0.860), (3, 0.806)])
def test_t1_is_nearly_attained_at_low_frequencies(d, reached):
    nodes = np.meshgrid(*[np.array([0.0, 1.0])] * d, indexing="ij")[0]
    frequency = (1,) + (0,) * (d - 1)
    ratio = _ratio(Interpolant.from_samples(nodes), frequency, 32, sup=1.0, lipschitz=(1.0,) + (0.0,) * (d - 1))
    assert ratio > 0.9 * reached


@pytest.mark.parametrize("d", [1, 2, 3])
def test_t3_is_attained_by_teeth(d):
    tooth = np.tile([0.0, 1.0], 6)
    nodes = sum(np.meshgrid(*[tooth] * d, indexing="ij"))
    ratio = _ratio(Interpolant.from_samples(nodes, periodic=True), (0,) * d, 6, lipschitz=(12.0,) * d, periodic=True)
    assert ratio > 0.999999


def test_t4_is_attained_at_the_nyquist_frequency():
    v = Interpolant.from_samples(np.tile([1.0, -1.0], 8), periodic=True)
    slopes = float(v.slope_variation()[0, 0])
    ratio = _ratio(v, 8, 16, derivatives={2: slopes}, periodic=True)
    assert ratio > 0.999999


@pytest.mark.parametrize(("d", "reached"), [(1, 0.9999), (2, 0.97), (3, 0.9)])
def test_sobolev_bound_is_nearly_attained(d, reached):
    """v^(q) = |q|^(-2s) on the aliases of 0 is the case of equality of Cauchy-Schwarz."""
    m, s, reach = 4, d / 2 + 1.5, {1: 60, 2: 40, 3: 12}[d]
    steps = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    lengths = 2 * np.pi * m * np.linalg.norm(steps[np.any(steps != 0, axis=1)], axis=1)
    spectrum = lengths ** (-2 * s)
    norm = math.sqrt(np.sum(lengths ** (2 * s) * spectrum**2))
    ratio = spectrum.sum() / float(bound_discretization((0,) * d, m, sobolev=(s, norm), periodic=True))
    assert reached < ratio <= 1


def test_a_constant_at_an_aliased_frequency_is_off_by_itself():
    ones = Interpolant.from_samples(np.full(5, 3.0))
    assert float(discretization_error(ones, 16, 16)) == pytest.approx(3.0)
    assert float(bound_discretization(16, 16, sup=3.0, lipschitz=0.0)) == pytest.approx(3.0)


def test_a_jump_inside_a_cell_beyond_the_range_of_the_grid():
    """THEORY.md's T2 has sqrt(1 + (cot x - 1/x)^2)/m for every w; past |w| = m the kernel peaks inside the cell."""
    error = abs(
        np.sum(np.exp(2j * np.pi * 3 * np.array([0.0]))) / 2 - (np.exp(2j * np.pi * 3 * 0.25) - 1) / (6j * np.pi)
    )
    x = 1.5 * np.pi
    printed = math.hypot(1, 1 / math.tan(x) - 1 / x) / 2
    assert error > 1.08 * printed
    assert error <= float(bound_discretization(3, 2, variation=1.0)) < 1.01 * error


def test_sup_alone_gives_a_bound_that_says_what_is_missing():
    bound = bound_discretization(3, 1000, sup=2.0)
    assert float(bound) == pytest.approx(2 * (1 + 2 / math.pi))
    assert "without lipschitz, variation or derivatives no bound falls with the grid" in str(bound)
    assert "without" not in str(bound_discretization(3, 2, sup=1e-9, lipschitz=1.0))


def test_a_jump_needs_variation_and_gets_a_bound():
    def step(points):
        return (points[..., 0] < 1 / 3) * 1.0

    exact = (np.exp(2j * np.pi * 2 / 3) - 1) / (4j * np.pi)
    observed = float(discretization_error(step, 2, 50, exact=exact))
    assert 0 < observed <= float(bound_discretization(2, 50, variation=1.0))


def test_a_measured_coefficient_sharpens_the_bound():
    v = Interpolant.from_samples([0.0, 0.9, 1.0, 0.9, 0.0])
    seen = complex(v.coefficient(3, 16)[0])
    constants = {"sup": 1.0, "lipschitz": 3.6}
    plain, sharper = (bound_discretization(3, 16, coefficient=c, **constants) for c in (None, seen))
    assert float(discretization_error(v, 3, 16)) <= float(sharper) < float(plain)


def test_mean_distance_on_cubes_and_its_bound_on_boxes():
    rng = np.random.default_rng(0)
    for sides in [(4,), (4, 4), (4, 4, 4), (3, 7), (2, 5, 9), (3, 3, 3, 3)]:
        sample = np.linalg.norm(rng.random((200_000, len(sides))) / sides, axis=1).mean()
        exact = len(sides) <= 3 and len(set(sides)) == 1
        assert mean_distance(read_lattice((0,) * len(sides), sides)) >= sample * (0.998 if exact else 1.0)
        assert mean_distance(read_lattice((0,) * len(sides), sides)) <= sample * (1.002 if exact else 1.1)


def test_measured_error_agrees_between_its_three_ways():
    def v(points):
        return np.cos(2 * np.pi * points[..., 0]) * points[..., 1] ** 2

    quadrature = float(discretization_error(v, (1, 1), (8, 6)))
    axes = [np.arange(k) / k for k in (8, 6 * 4096)]
    fine = v(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
    assert float(discretization_error(fine, (1, 1), (8, 6))) == pytest.approx(quadrature, rel=1e-3)
    # int cos(2 pi x) e^{2 pi i x} = 1/2; int y^2 e^{2 pi i y} = 1/(2 pi^2) + 1/(2 pi i).
    exact = 0.5 * (1 / (2 * np.pi**2) + 1 / (2j * np.pi))
    assert float(discretization_error(v, (1, 1), (8, 6), exact=exact)) == pytest.approx(quadrature, rel=1e-9)


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(seeds, st.integers(1, 2), st.floats(0.05, 20), st.floats(0.05, 20))
def test_lower_bound_is_attained_by_its_witness(seed, d, sup, lipschitz):
    rng = np.random.default_rng(seed)
    sides = [int(m) for m in rng.integers(1, 9, size=d)]
    w = [int(x) for x in rng.integers(-12, 13, size=d) * rng.integers(0, 2, size=d)]
    bound = lower_bound_discretization(w, sides, sup=sup, lipschitz=lipschitz)
    _check_membership(bound.witness, rng, d, sup, lipschitz)
    observed = _disc_by_quadrature(bound.witness, w, sides)
    assert observed >= float(bound) * (1 - (1e-9 if d == 1 else 3e-4))
    # The witness is one of the functions that the upper bound covers.
    assert float(bound) <= float(bound_discretization(w, sides, sup=sup, lipschitz=lipschitz))


def _check_membership(witness, rng, d, sup, lipschitz):
    """|v| <= M, and difference quotients over short and long distances at most L."""
    assert isinstance(witness, Ramp | Teeth)
    points = rng.random((2000, d))
    others = np.clip(points + rng.standard_normal((2000, d)) * 10.0 ** rng.uniform(-5, 0, size=(2000, 1)), 0, 1)
    assert np.abs(witness(points)).max() <= sup * (1 + 1e-9)
    distance = np.linalg.norm(points - others, axis=1)
    assert np.all(np.abs(witness(points) - witness(others)) <= lipschitz * distance * (1 + 1e-6) + 1e-12)


def _disc_by_quadrature(v, w, sides):
    """Gauss-Legendre on half cells, where the teeth have their kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    axes = [((np.arange(2 * m)[:, None] + (nodes + 1) / 2) / (2 * m)).ravel() for m in sides]
    integral = v(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)).astype(complex)
    for x, frequency, m in reversed(list(zip(axes, w, sides, strict=True))):
        integral = integral @ (np.tile(weights, 2 * m) / (4 * m) * np.exp(2j * np.pi * frequency * x))
    return float(discretization_error(v, w, sides, exact=complex(integral)))
