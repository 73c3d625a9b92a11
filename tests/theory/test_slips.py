"""Each slip of the paper that has a case: the printed formula is violated, ours is not.

Numbers are those of the table in docs/theory.md.
"""

import math

import numpy as np
import pytest

from halfwave.errors import InputError
from halfwave.theory import (
    Algorithm,
    Interpolant,
    PrecisionSystem,
    bound_discretization,
    bound_precision,
    bound_precision_system,
    crossover,
    discretization_error,
    emulated_fft,
    estimate_lipschitz,
    lower_bound_discretization,
    no_overflow,
    paper_bound_discretization,
    paper_bound_discretization_general,
    paper_bound_precision,
    paper_bound_precision_general,
    paper_lower_bound_algebra,
    paper_lower_bound_discretization,
    paper_lower_bound_discretization_general,
    paper_lower_bound_precision_general,
    precision_error,
)


def teeth(m, lowered=0.0):
    """dist(x, Z/m) - lowered, exactly."""
    return Interpolant.from_samples(np.tile([0.0, 1 / (2 * m)], m) - lowered, periodic=True)


def test_slip_1_lower_bound_grows_with_sup():
    claim = float(paper_lower_bound_discretization(10, 1, sup=1000))
    ours = bound_discretization(1, 10, sup=1000, lipschitz=1)
    assert claim == pytest.approx(5.24, abs=0.01)
    assert float(ours) < 0.06 < claim
    assert float(lower_bound_discretization(1, 10, sup=1000, lipschitz=1)) == pytest.approx(0.0503, abs=1e-4)


def test_slip_2_general_lower_bound():
    claim = float(paper_lower_bound_discretization_general(10, 1))
    assert claim == pytest.approx(1 / 10)
    ours = float(bound_discretization(0, 10, lipschitz=1))
    assert ours == pytest.approx(1 / 20)
    assert ours < claim
    assert float(lower_bound_discretization(0, 10, sup=1, lipschitz=1)) == pytest.approx(1 / 20)


def test_slip_3_general_precision_bound_ignores_underflow_and_saturation():
    a0, eps, steps = 2.0**-10, 0.01, 2000
    system = PrecisionSystem(a0, eps, steps)
    for value in (a0 / 2.1, 3 * system.largest):
        error = abs(value - float(system.quantize(value)))
        assert error > float(paper_bound_precision_general(eps, sup=value))
        assert error <= system.error(value)
    assert abs(0.4 * a0 - float(system.quantize(0.4 * a0))) == 0.4 * a0


def test_slip_4_the_two_errors_are_not_comparable():
    """v = cos 2 pi x at w = 1: no discretization error on any grid of 3 points or more, fp16's does not fall with n."""

    def v(points):
        return np.cos(2 * np.pi * points[..., 0])

    seen = []
    for m in (16, 64, 256, 1024):
        assert float(discretization_error(v, 1, m, exact=0.5)) < 1e-15
        seen.append(float(precision_error(v, 1, m, "fp16")))
        assert seen[-1] <= float(bound_precision("fp16", m, sup=1))
    assert min(seen) > 1e-6
    # Every Fourier coefficient but that of +-1 vanishes: T4 in any Sobolev norm says nearly zero, and falls fast.
    rough, fine = (
        float(bound_discretization(1, m, sobolev=(8.0, 2**-0.5 * (2 * np.pi) ** 8), periodic=True)) for m in (16, 64)
    )
    assert fine < 1e-4 * rough < 1e-8


def test_slip_5_upper_bound_is_not_linear_in_sup():
    m = 50
    v = teeth(m, lowered=1 / (4 * m))
    observed = float(discretization_error(v, 0, m))
    assert observed == pytest.approx(0.005)
    claim = float(paper_bound_discretization(0, m, 1, sup=1 / (4 * m), lipschitz=1))
    assert claim == pytest.approx(0.0002)
    assert observed > 20 * claim
    assert observed <= float(bound_discretization(0, m, sup=1 / (4 * m), lipschitz=1, periodic=True))
    assert observed <= float(bound_discretization(0, m, sup=1 / (4 * m), lipschitz=1))


def test_slip_6_precision_bound_ignores_underflow():
    a0, eps, steps, v = 2.0**-24, 2.0**-10, 40_000, 2.0**-26
    system = PrecisionSystem(a0, eps, steps)
    assert system.largest > 1
    observed = abs(v - float(system.quantize(v)) * float(system.quantize(1.0)))
    assert observed / float(paper_bound_precision(eps, sup=v)) == pytest.approx(256)
    assert observed <= float(bound_precision_system(v, a0, eps, steps))


def test_slip_7_unit_roundoff_of_float16():
    v = np.full(4, 1 + 2.0**-11)
    observed = float(precision_error(v, 0, 4, "fp16"))
    assert observed == pytest.approx(4.88e-4, rel=1e-2)
    assert observed > float(paper_bound_precision(1e-4, sup=1 + 2.0**-11))
    assert observed <= float(bound_precision("fp16", 4, sup=1 + 2.0**-11))


def test_slip_8_two_pi_is_missing():
    """Real w = 0.05, v = 1000, m = 16. Our theorems are for integer frequencies and refuse others."""
    w, m, size = 0.05, 16, 1000.0
    integral = size * (np.exp(2j * np.pi * w) - 1) / (2j * np.pi * w)
    observed = abs(integral - size * np.exp(2j * np.pi * w * np.arange(m) / m).mean())
    assert observed == pytest.approx(9.78, abs=0.01)
    assert observed > (size * w + 1) / m == pytest.approx(3.19, abs=0.01)
    # The simple form of T1b does not need an integer w: sqrt(d/3) (L + 2 pi M |w|)/m.
    assert observed <= math.sqrt(1 / 3) * (1 + 2 * np.pi * size * w) / m
    with pytest.raises(InputError, match="frequency must be an integer"):
        bound_discretization(w, m, sup=size, lipschitz=1)


def test_slip_9_sines_are_not_a_fourier_mode():
    """int x sin 2 pi x = -1/(2 pi), not +; int x1 x2 sin 2 pi(x1 + x2) = 0, not (2 pi)^-2."""
    ramp = Interpolant.from_samples([0.0, 1.0])
    assert ramp.fourier(1)[0].imag == pytest.approx(-1 / (2 * np.pi))
    product = Interpolant.from_samples([[0.0, 0.0], [0.0, 1.0]])
    assert abs(product.fourier((1, 1))[0].imag) < 1e-15


def test_slip_10_algebra_of_the_lower_bound():
    """The error of x1 x2 sin sin on a 2 x 2 grid: 0.0253, and a factor that grows with n is printed."""
    m, d = 2, 2
    x = np.arange(m) / m
    observed = abs((1 / (2 * np.pi)) ** 2 - np.mean(x * np.sin(2 * np.pi * x)) ** 2)
    correct = (2 * np.pi) ** -d * (1 - ((np.pi / m) / math.tan(np.pi / m)) ** d)
    assert observed == pytest.approx(correct) == pytest.approx(0.0253, abs=1e-4)
    claim = float(paper_lower_bound_algebra(m**d, d))
    assert claim == pytest.approx(0.236, abs=1e-3)
    assert observed < claim / 9


def test_slip_11_quantized_modes_exceed_one():
    system = PrecisionSystem(0.3, 0.1, 30)
    assert float(system.quantize(1.0)) == pytest.approx(1.036, abs=1e-3)
    assert abs(complex(system.quantize(1.0 + 0j))) <= 1 + system.mode_error()


@pytest.mark.parametrize("w", [0, 8])
def test_slip_12_the_aliasing_example_vanishes(w):
    """v = sin 2 pi (n + w) x is said to have an error of order 1; with 2w = 0 mod n it has none."""
    n = 16

    def v(points):
        return np.sin(2 * np.pi * (n + w) * points[..., 0])

    assert float(discretization_error(v, w, n, exact=0.0)) < 1e-13
    assert float(discretization_error(lambda p: np.sin(2 * np.pi * (n + 3) * p[..., 0]), 3, n, exact=0.0)) > 0.49


def test_slip_13_sums_are_rounded_too_and_overflow():
    ones = np.ones(4096)
    observed = float(precision_error(ones, 0, 4096, "fp16", Algorithm("gemm", accumulate="fp16")))
    assert observed == 0.5 > float(paper_bound_precision(2.0**-10, sup=1))
    assert observed <= float(bound_precision("fp16", 4096, sup=1, algorithm="gemm", accumulate="fp16"))
    assert np.isinf(emulated_fft(np.ones((256, 256)), "fp16")[0, 0].real)
    assert not no_overflow("fp16", (256, 256), 1.0)


def test_slip_14_tanh_can_raise_the_discretization_error():
    def v(points):
        return 3 * np.cos(2 * np.pi * points[..., 0])

    before = float(discretization_error(v, 3, 8, exact=0.0))
    after = float(discretization_error(lambda p: np.tanh(v(p)), 3, 8, order=40))
    assert before < 1e-14
    assert after == pytest.approx(0.047, abs=1e-3)
    assert after <= float(bound_discretization(3, 8, sup=1, lipschitz=6 * np.pi, periodic=True))


def test_slip_15_darcy_coefficients_jump():
    """A field of two values: the Lipschitz estimate grows with the grid, the bound by variation falls with it."""

    def coefficient(points):
        return np.where(np.abs(points[..., 0] - 0.5) + 0.3 * points[..., 1] < 0.4, 12.0, 3.0)

    estimates, bounds = [], []
    fine = coefficient(np.stack(np.meshgrid(*[np.arange(1024) / 1024] * 2, indexing="ij"), axis=-1))
    for m in (16, 32, 64):
        samples = fine[:: 1024 // m, :: 1024 // m]
        estimates.append(float(estimate_lipschitz(samples)[0]))
        bounds.append(float(bound_discretization((1, 2), m, sup=12, variation=(18.0, 9.0))))
        assert float(discretization_error(fine, (1, 2), m)) <= bounds[-1]
    assert estimates[2] > 1.9 * estimates[1] > 3.6 * estimates[0]
    assert bounds[2] < 0.6 * bounds[1] < 0.36 * bounds[0]


def test_slip_16_a_million_points_are_too_many():
    """n^(-2/d) = eps at n = 1e6 only for eps = 1e-4; float16 has 2^-10 in that place: 32 a side."""
    assert round((2.0**-10) ** -1.5) == 32_768 == 32**3
    claimed = float(paper_lower_bound_discretization(100**3, 3, sup=1)) / (math.pi / 6 * math.sqrt(3))
    assert claimed == pytest.approx(1e-4)
    assert float(precision_error(np.full((2, 2, 2), 1 + 2.0**-11), (0, 0, 0), 2, "fp16")) > 4 * claimed
    assert crossover("fp16", 3, 1.0, "fft") == 16


def test_what_the_paper_has_right_holds():
    """A.1's upper bound holds and ours is sharper; A.2's lower bound is attained within a factor of 2."""
    for d in (1, 2, 3):
        ours = float(bound_discretization((0,) * d, 8, lipschitz=1))
        assert ours < float(paper_bound_discretization_general(8**d, d, lipschitz=1))
    system = PrecisionSystem(2.0**-14, 2.0**-6, 4000)
    x = np.linspace(0.5, 1, 20001)
    assert np.abs(system.quantize(x) - x).max() >= float(paper_lower_bound_precision_general(2.0**-6, sup=1))


def test_printed_versions_are_never_called_guarantees():
    for bound in (paper_bound_precision(0.1, sup=1), paper_lower_bound_algebra(4, 2)):
        assert not bound.guaranteed
        assert "of the paper" in bound.theorem
    with pytest.raises(InputError, match="dimension must be an integer >= 1"):
        paper_lower_bound_discretization(10, 0, sup=1)
    with pytest.raises(InputError, match="sup must be"):
        paper_bound_precision(0.1, sup=-1)
