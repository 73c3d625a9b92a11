"""Each term of the block's bound, stage by stage: arithmetic and data that reach at least half of it.

Where a stage stands alone here, all others are exact: in fp64, or left out.
"""

import math

import numpy as np
import pytest
from adversary import reaches, worst_fft, worst_product, worst_sum
from emulated_block import Library, emulated_block, exact_block, rms, rounded, weight_norms

from halfwave.numerics import FORMATS, Accumulation
from halfwave.theory import Pipeline, bound_block
from halfwave.theory.block import Sizes, _add_bias, _contract
from halfwave.theory.overflow import fft_growth, fft_losses
from halfwave.theory.pipeline import ErrorState, cast
from halfwave.theory.roundoff import roundoff_of
from halfwave.theory.transforms import (
    _fft,
    _forward_fft,
    _inverse_fft,
    forward_transform,
    inverse_transform,
    library_growth,
)

FP64 = ("fp64",) * 4
COARSE = 2.0**-10
WORST = Accumulation(FORMATS["fp64"], COARSE, nearest=False)
FP16, FP8 = roundoff_of(FORMATS["fp16"]), roundoff_of(FORMATS["fp8_e4m3"])


def exact_state(norm):
    return ErrorState(norm, 0.0, None)


def mean_weights():
    return np.ones((1, 1, 1), dtype=complex)


def reached(v, weights, modes, pipeline, library=Library()):  # noqa: B008
    grid, (c_out, c_in) = v.shape[1:], weights.shape[-2:]
    r2, ra = weight_norms(weights)
    error = rms(
        emulated_block(v, weights, grid, modes, pipeline, library=library) - exact_block(v, weights, grid, modes)
    )
    sizes = {"grid": grid, "modes": modes, "in_channels": c_in, "out_channels": c_out}
    return error, float(bound_block(pipeline, **sizes, r2=r2, ra=ra, norm=rms(v)))


def test_sums_along_the_last_axis():
    """Values that fall as the sum goes on, since the first are added most often."""
    v = 64.0 - np.arange(64.0)
    observed = worst_sum(v / 64, COARSE) - v.mean()
    state = forward_transform(exact_state(rms(v[None])), Pipeline(*FP64, accumulate=WORST), (64,), (1,), 1)
    reaches(observed, 64 * COARSE * rms(v[None]), state.error)
    assert observed > 0.5 * state.error


def test_sums_along_an_inner_axis():
    """The sums there run over both parts: 128 terms, the real ones first."""
    v = (128.0 - np.arange(64.0)).reshape(1, 64, 1)
    weights = np.ones((1, 1, 1, 1), dtype=complex)
    library = Library(product=worst_product(COARSE))
    error, bound = reached(v, weights, (1, 1), Pipeline(*FP64, accumulate=WORST), library)
    reaches(error, math.sqrt(2) * 128 * COARSE * rms(v), bound)
    assert error > 0.4 * bound


def test_sums_of_the_way_back():
    """One mode, its two parts: a product and a sum."""
    pipeline = Pipeline(*FP64, accumulate=WORST)
    state = inverse_transform(exact_state(1.0), pipeline, (4,), (1,), 1)
    assert worst_sum(np.array([1.0, 0.0]), COARSE) - 1.0 <= state.error
    reaches(worst_sum(np.array([1.0, 0.0]), COARSE) - 1.0, 4 * COARSE, state.error)


def test_sums_of_the_contraction():
    """256 channels, the first as large as all together: 512 products and sums, its own first."""
    c = 256
    x = np.array([1.0, *[1e-9] * (c - 1)])
    sizes = Sizes((1,), (1,), (1,), c, 1)
    state = _contract(exact_state(1.0), Pipeline(*FP64, accumulate=WORST), sizes, 1.0, 1.0)
    observed = worst_sum(np.concatenate([x * x, np.zeros(c)]), COARSE) - np.sum(x * x)
    reaches(observed, math.sqrt(2) * 2 * c * COARSE, state.error)


def test_underflow_in_the_accumulator():
    """64 products of one and a half smallest numbers: each is rounded up by half of one."""
    unit = 2 * FP16.absolute
    v = np.full(64, 96 * unit)
    products = rounded(v / 64, "fp16")
    assert np.all(products == 2 * unit)
    state = forward_transform(exact_state(96 * unit), Pipeline("fp16", accumulate="fp16"), (64,), (1,), 1)
    reaches(products.sum() - 96 * unit, 64 * FP16.absolute * math.sqrt(2), state.error)


def test_underflow_on_the_way_back():
    """A coefficient of 1.5 smallest numbers where subnormal products are flushed: two products, one of them all."""
    pipeline = Pipeline(*["fp16"] * 4, accumulate="fp16", flush_to_zero=True)
    size = 0.99 * FORMATS["fp16"].smallest_normal
    state = inverse_transform(ErrorState(size, 0.0, FORMATS["fp16"]), pipeline, (1,), (1,), 1)
    reaches(size, FORMATS["fp16"].smallest_normal, state.error)


def test_underflow_in_the_contraction():
    """Both products of the real part in each of 64 channels, rounded up by half a smallest number."""
    unit, c = 2 * FP16.absolute, 64
    weight, x = 2.0**-5 * (1 + 1j), 48 * unit * (1 - 1j)
    products = rounded(np.array([weight.real * x.real, -weight.imag * x.imag]), "fp16").real
    assert np.all(products == 2 * unit)
    sizes = Sizes((1,), (1,), (1,), c, 1)
    norm = abs(weight) * math.sqrt(c)
    pipeline = Pipeline("fp64", "fp16", "fp64", "fp16", accumulate="fp16", cast_every_step=False)
    state = _contract(exact_state(abs(x) * math.sqrt(c)), pipeline, sizes, norm, norm)
    observed = c * products.sum() - c * 3 * unit
    reaches(observed, math.sqrt(2) * 2 * c * FP16.absolute, state.error)


@pytest.mark.parametrize("value", [1 + 2.0**-4, FP8.absolute])
def test_rounding_of_weights(value):
    """A tie, and half the smallest number in both parts."""
    both = 1 + 1j if value < 0.1 else 1
    weights = np.full((1, 1, 1), value * both, dtype=complex)
    r = float(abs(weights[0, 0, 0]))
    lost = abs(complex(rounded(weights, "fp8_e4m3")[0, 0, 0]) - weights[0, 0, 0])
    state = _contract(
        exact_state(1.0), Pipeline("fp64", "fp64", "fp64", "fp8_e4m3"), Sizes((1,), (1,), (1,), 1, 1), r, r
    )
    term = FP8.relative * r if value > 0.1 else math.sqrt(2) * FP8.absolute
    reaches(lost, term, state.error)
    assert lost > 0.6 * state.error


def test_weights_rounded_twice():
    """From fp16 to fp8: 1 + 2^-4 - 2^-12 goes up to the tie, and the tie to 1."""
    value = 1 + 2.0**-4 - 2.0**-12
    there = rounded(np.array([value]), "fp16")
    assert float(there[0]) == 1 + 2.0**-4
    lost = value - float(rounded(there, "fp8_e4m3")[0])
    pipeline = Pipeline("fp64", "fp8_e4m3", "fp64", "fp16", accumulate="fp64", cast_every_step=False)
    state = _contract(ErrorState(1.0, 0.0, FORMATS["fp8_e4m3"]), pipeline, Sizes((1,), (1,), (1,), 1, 1), value, value)
    reaches(lost, FP8.relative * value, state.error)
    tiny = _contract(ErrorState(1.0, 0.0, FORMATS["fp8_e4m3"]), pipeline, Sizes((1,), (1,), (1,), 1, 1), 0.0, 0.0)
    reaches(math.sqrt(2) * FP8.absolute, math.sqrt(2) * FP8.absolute, tiny.error)


@pytest.mark.parametrize("value", [1 + 2.0**-4, FP8.absolute])
def test_one_cast_alone(value):
    """A tie, and half the smallest number: all that a cast may do."""
    state = cast(exact_state(value), FORMATS["fp8_e4m3"], Pipeline.uniform("fp8_e4m3"), 1)
    lost = abs(float(rounded(np.array([value]), "fp8_e4m3")[0]) - value)
    reaches(lost, FP8.relative * value if value > 0.1 else FP8.absolute, state.error)
    assert cast(state, FORMATS["fp16"], Pipeline.uniform("fp8_e4m3"), 1) == state


def test_errors_that_entered_are_rounded_too():
    """What is cast is the computed tensor: its norm may be that of the exact one and of the error."""
    state = cast(ErrorState(0.0, 1 + 2.0**-4, None), FORMATS["fp8_e4m3"], Pipeline.uniform("fp8_e4m3"), 0)
    reaches(2.0**-4, FP8.relative * (1 + 2.0**-4), state.error - (1 + 2.0**-4))


def test_underflow_of_real_products():
    """The four real products of one mode and one channel, each half the smallest number."""
    state = _contract(
        ErrorState(2.0**-12 * math.sqrt(2), 0.0, FORMATS["fp16"]),
        Pipeline("fp64", "fp16", "fp64", "fp64"),
        Sizes((1,), (1,), (1,), 1, 1),
        2.0**-13 * math.sqrt(2),
        2.0**-13 * math.sqrt(2),
    )
    # (1 + i)(1 - i) 2^-25: two products of the same sign in the real part, two that cancel in the imaginary one.
    reaches(2 * FP16.absolute, math.sqrt(2) * FP16.absolute * 2, state.error)


@pytest.mark.parametrize("sides", [(2,), (8,), (64,)])
def test_growth_of_a_half_fft(sides):
    """One value that meets every twiddle factor, each operation too large by all that it may be."""
    v = np.zeros(sides[0])
    v[-1] = 1.0
    norm = rms(v[None])
    for pipeline, growth, skip in (
        (Pipeline.uniform("fp8_e4m3", "fft"), fft_growth(FP8, sides), 2),
        (Pipeline(*["fp8_e4m3"] * 4, "cast", accumulate="fp8_e4m3"), library_growth(FP8, sides), 0),
    ):
        computed = worst_fft(v, FP8.relative, FP8.unit_error(), FP8.product_error(), skip=skip)
        observed = np.linalg.norm(computed - np.fft.fft(v)) / sides[0]
        state = _fft(exact_state(norm), pipeline, FORMATS["fp8_e4m3"], sides, 1, 1.0)
        assert observed >= 0.999 * growth.excess * norm
        reaches(observed, growth.excess * norm, state.error)


@pytest.mark.parametrize(("transform", "skip"), [("fft", 2), ("cast", 0)])
@pytest.mark.parametrize("n", [8, 64])
def test_losses_of_an_fft(transform, skip, n):
    """Every product loses 2 sqrt2 eta; on means, and back."""
    eta, format = FP8.absolute, FORMATS["fp8_e4m3"]
    pipeline = Pipeline(*["fp8_e4m3"] * 4, transform, accumulate="fp8_e4m3")
    computed = worst_fft(
        np.zeros(n), FP8.relative, FP8.unit_error(), FP8.product_error(), skip=skip, lost=2 * math.sqrt(2) * eta
    )
    losses = fft_losses((n,), math.sqrt(2)) if transform == "fft" else 2 * (2 + math.sqrt(2))
    there = _fft(exact_state(0.0), pipeline, format, (n,), 1, 1.0)
    reaches(np.linalg.norm(computed) / n, losses * eta, there.error)
    back = _inverse_fft(exact_state(0.0), pipeline.back(), format, (n,), 1)
    reaches(np.linalg.norm(computed) / math.sqrt(n), math.sqrt(n) * losses * eta, back.error)


def test_cast_of_a_sum_before_it_is_divided():
    """1 + 1.125 is half way between two numbers of fp8; coefficients of subnormal values lose half of one."""
    v = np.array([[1.0, 1.125]])
    pipeline = Pipeline("fp8_e4m3", "fp64", "fp64", "fp64", "cast")
    error, bound = reached(v, mean_weights(), (1,), pipeline)
    reaches(error, FP8.relative * rms(v), bound)
    rng = np.random.default_rng(0)
    tiny = rng.integers(-3, 4, 64) * 2 * FP8.absolute
    spectrum = np.fft.fft(tiny)
    lost = np.linalg.norm(rounded(spectrum, "fp8_e4m3") - spectrum) / 64
    state = _forward_fft(exact_state(rms(tiny[None])), pipeline, FORMATS["fp8_e4m3"], (64,), 64, 1)
    reaches(lost, FP8.absolute / 64 * math.sqrt(128), state.error)


@pytest.mark.parametrize("value", [1 + 2.0**-4, FP8.absolute])
def test_rounding_of_the_bias(value):
    sizes, pipeline = Sizes((1,), (1,), (1,), 1, 1), Pipeline("fp64", "fp8_e4m3", "fp64", "fp64")
    state = _add_bias(exact_state(0.0), pipeline, sizes, value)
    lost = abs(float(rounded(np.array([value]), "fp8_e4m3")[0]) - value)
    reaches(lost, FP8.relative * value if value > 0.1 else FP8.absolute, state.error)


def test_rounding_of_the_sum_with_the_bias():
    """1 + 1/16 is half way; and a sum that is subnormal is flushed."""
    sizes, pipeline = Sizes((1,), (1,), (1,), 1, 1), Pipeline("fp64", "fp8_e4m3", "fp64", "fp64")
    state = _add_bias(exact_state(1.0), pipeline, sizes, 2.0**-4)
    reaches(2.0**-4, FP8.relative * (1 + 2.0**-4), state.error)
    smallest = FORMATS["fp16"].smallest_normal
    flushing = Pipeline("fp64", "fp16", "fp64", "fp64", flush_to_zero=True)
    exact = _add_bias(exact_state(1.9 * smallest), Pipeline("fp64", "fp16", "fp64", "fp64"), sizes, smallest)
    state = _add_bias(exact_state(1.9 * smallest), flushing, sizes, smallest)
    # 1.9 - 1 smallest numbers: the sum is lost, where gradual underflow keeps it.
    reaches(0.9 * smallest, smallest, state.error)
    assert exact.error < 0.01 * smallest


def test_estimates_where_nobody_vouches():
    sizes = {"grid": 64, "modes": 8, "in_channels": 2, "out_channels": 2, "r2": 1, "ra": 1, "norm": 1}
    unknown = Accumulation(FORMATS["fp32"], 2.0**-22, nearest=False, source="a device", known=False)
    assert bound_block(Pipeline(), **sizes).guaranteed
    assert bound_block(Pipeline(transform="fft"), **sizes).guaranteed
    for pipeline in (
        Pipeline(accumulate=unknown),
        Pipeline(transform="cast"),
        Pipeline(transform="fft", inverse_transform="cast"),
    ):
        bound = bound_block(pipeline, **sizes)
        assert not bound.guaranteed
        assert "estimate" in str(bound)
    assert "a device; not known" in str(bound_block(Pipeline(accumulate=unknown), **sizes))
    assert "nobody vouches for it" in str(bound_block(Pipeline(transform="cast"), **sizes))
