"""Each term of the block's bound is needed: a case for each where the error is more than all the others allow.

Random data reach about half of a bound, so that any one term could go unnoticed; here data, order of sums and FFT are
chosen against it. `benchmarks/mutate_bounds.py` takes the terms out one by one and sees these tests fail.
"""

import math

import numpy as np
import pytest
from emulated_block import Library, emulated_block, exact_block, frequencies, rms, rounded, weight_norms

from halfwave.theory import Pipeline, bound_block, emulated_fft
from halfwave.theory.roundoff import read_format, roundoff_of

FP64 = ("fp64",) * 3


def reached(v, weights, modes, pipeline, library=Library()):  # noqa: B008
    """Error over bound of (C, *grid) values and (*K, O, C) weights."""
    grid, (c_out, c_in) = v.shape[1:], weights.shape[-2:]
    r2, ra = weight_norms(weights)
    error = rms(
        emulated_block(v, weights, grid, modes, pipeline, library=library) - exact_block(v, weights, grid, modes)
    )
    sizes = {"grid": grid, "modes": modes, "in_channels": c_in, "out_channels": c_out}
    return error / float(bound_block(pipeline, **sizes, r2=r2, ra=ra, norm=rms(v)))


def mean_weights(c_in=1):
    """Of the mean alone: the block is the mean over the grid, summed over channels."""
    return np.ones((1, 1, c_in), dtype=complex)


def one_after_the_other(left, right):
    """left @ right with sums from first to last, each rounded to the operands' dtype: what no blocked product does."""
    total = left[..., :, 0, None] * right[..., 0, None, :]
    for n in range(1, left.shape[-1]):
        total = total + left[..., :, n, None] * right[..., n, None, :]
    return total


def rounded_down(count):
    """Numbers close to 1 whose running sum in fp32 loses almost half a last place with every one of them."""
    total, values = np.float32(1), [np.float32(1)]
    for _ in range(count - 1):
        values.append(np.nextafter(1 + np.spacing(total) / 2, np.float32(0)))
        total = total + values[-1]
    return np.array(values, dtype=np.float64)


def tones(x, side, count):
    """The field whose coefficients are x at the frequencies 1 .. count."""
    waves = np.exp(2j * np.pi * np.outer(np.arange(1, count + 1), np.arange(side)) / side)
    return 2 * (x * waves).sum(axis=0).real[None]


def bluestein(fields):
    """A textbook FFT for any side, in fp32: three transforms of a power of two and products with a chirp."""
    side = fields.shape[-1]
    length = 2 ** (2 * side - 2).bit_length()
    chirp = rounded(np.exp(-1j * np.pi * (np.arange(side) ** 2 % (2 * side)) / side), "fp32")
    kernel = np.zeros(length, dtype=complex)
    kernel[:side], kernel[1 - side :] = chirp.conj(), chirp.conj()[:0:-1]
    padded = np.zeros((len(fields), length), dtype=complex)
    padded[:, :side] = _product(fields.astype(complex), chirp)
    spectrum = _product(emulated_fft(padded, "fp32", axes=1), emulated_fft(kernel, "fp32"))
    return _product(emulated_fft(spectrum, "fp32", axes=1, inverse=True)[:, :side] / length, chirp)


def _product(a, b):
    """Complex, by four products and two sums in fp32."""
    re = rounded(rounded(a.real * b.real, "fp32") - rounded(a.imag * b.imag, "fp32"), "fp32")
    return re + 1j * rounded(rounded(a.real * b.imag, "fp32") + rounded(a.imag * b.real, "fp32"), "fp32")


def test_sums_of_a_transform():
    """The mean of 256 values: a third of a unit roundoff for each of them, a dozen for all else."""
    found = reached(
        rounded_down(256)[None], mean_weights(), (1,), Pipeline.uniform("fp32"), Library(product=one_after_the_other)
    )
    assert 0.2 < found <= 1


def test_sums_of_the_contraction():
    """The sum of 256 channels on a grid of one point."""
    pipeline = Pipeline.uniform("fp32")
    found = reached(rounded_down(256)[:, None], mean_weights(256), (1,), pipeline, Library(product=one_after_the_other))
    assert 0.05 < found <= 1


def test_rounded_matrix():
    """1/1024 is half the smallest number of fp8: the matrix of means is zero, and all of the field is lost."""
    pipeline = Pipeline("fp8_e4m3", "fp32", "fp32", "fp32")
    assert 0.8 < reached(np.ones((1, 1024)), mean_weights(), (1,), pipeline) <= 1


def test_rounded_reciprocal():
    """1/1024 again, by which the unnormalised FFT is multiplied: zero in fp8."""
    pipeline = Pipeline("fp8_e4m3", "fp32", "fp32", "fp32", "cast")
    assert 0.6 < reached(np.full((1, 1024), 0.25), mean_weights(), (1,), pipeline) <= 1


def test_error_of_an_fp32_fft():
    """All else is exact or one of three casts, and a unit pulse on 127 points comes back off by four roundings."""
    weights = np.ones((len(frequencies((127,), (127,))[0]), 1, 1), dtype=complex)
    pulse = np.zeros((1, 127))
    pulse[0, -1] = 1
    found = reached(pulse, weights, (127,), Pipeline("fp32", *FP64, "cast"), Library(fft=bluestein))
    assert 0.03 < found <= 1


@pytest.mark.parametrize("stage", ["forward", "contraction", "inverse"])
def test_one_cast(stage):
    """1 + u on a grid of one point, in one stage alone: rounded down to 1, a tie."""
    u = read_format("fp8_e4m3").unit_roundoff
    pipeline = Pipeline(
        **{"forward": "fp64", "contraction": "fp64", "inverse": "fp64", "weights": "fp64"} | {stage: "fp8_e4m3"}
    )
    assert 0.15 < reached(np.full((1, 1), 1 + u), mean_weights(), (1,), pipeline) <= 1


def test_casts_of_the_four_real_products():
    """One tone times one complex weight in fp16: 3.76 u', where operands and result alone allow 3 u'."""
    weights = np.array([0, -0.28332518 - 1.08349605j]).reshape(2, 1, 1)
    v = tones(-0.49304197 - 2.03613267j, 4, 1)
    assert 0.8 < reached(v, weights, (3,), Pipeline("fp64", "fp16", "fp64", "fp64")) <= 1


def test_underflow_of_the_four_real_products():
    """Each is half the smallest number of fp16 and vanishes; operands are exact, and the result would have been."""
    weights = np.full((5, 1, 1), 2.0**-13 * (1 - 1j))
    v = tones(2.0**-12 * (1 + 1j), 16, 4)
    eta = roundoff_of(read_format("fp16")).absolute
    assert eta == 2.0**-12 * 2.0**-13
    assert rms(exact_block(v, weights, (16,), (9,))) == pytest.approx(math.sqrt(8) * 2 * eta)
    assert 0.4 < reached(v, weights, (9,), Pipeline("fp64", "fp16", "fp64", "fp64")) <= 1
