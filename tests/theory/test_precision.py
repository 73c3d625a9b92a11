"""Precision bounds against emulated arithmetic, and the emulator against numpy's own float16."""

import math

import numpy as np
import pytest
import torch
from property_search import search
from random_arithmetic import check_gemm, check_half_fft, check_system

from halfwave.errors import InputError
from halfwave.numerics import FORMATS, round_to
from halfwave.theory import (
    Algorithm,
    PrecisionSystem,
    bound_precision,
    bound_precision_system,
    crossover,
    emulated_fft,
    largest_scale,
    no_overflow,
    precision_error,
)
from halfwave.theory.emulator import twiddles
from halfwave.theory.roundoff import roundoff_of


def _numpy_float16_fft(values):
    """The same butterflies written in numpy's float16: an independent emulator, one dimension."""
    half = np.float16
    n = len(values)
    order = [int(format(i, f"0{n.bit_length() - 1}b")[::-1], 2) if n > 1 else 0 for i in range(n)]
    re, im = values.real.astype(half)[order], values.imag.astype(half)[order]
    size = 1
    while size < n:
        w = twiddles(size, False)
        w_re, w_im = w.real.astype(half), w.imag.astype(half)
        for start in range(0, n, 2 * size):
            for k in range(size):
                a, b = start + k, start + k + size
                t_re = re[b] * w_re[k] - im[b] * w_im[k]
                t_im = re[b] * w_im[k] + im[b] * w_re[k]
                re[a], re[b] = re[a] + t_re, re[a] - t_re
                im[a], im[b] = im[a] + t_im, im[a] - t_im
        size *= 2
    return re, im


@pytest.mark.parametrize("exponent", [-9, -6, -4, 0, 3, 4.4])
def test_emulator_is_numpy_float16_bit_for_bit(exponent):
    """From deep underflow to overflow: the same bits, zeros' signs aside, infinities and nans included."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 4, 8, 64, 256):
        values = (rng.standard_normal(n) + 1j * rng.standard_normal(n)) * 10.0**exponent
        with np.errstate(all="ignore"):
            re, im = _numpy_float16_fft(values)
        ours = emulated_fft(values, "fp16")
        assert np.array_equal(ours.real, re.astype(np.float64), equal_nan=True)
        assert np.array_equal(ours.imag, im.astype(np.float64), equal_nan=True)
    assert not np.all(np.isfinite(ours)) or exponent < 4


@pytest.mark.parametrize("name", list(FORMATS))
def test_emulated_results_are_numbers_of_the_format(name):
    values = np.random.default_rng(1).standard_normal((8, 16))
    spectrum = emulated_fft(values, name)
    for part in (spectrum.real, spectrum.imag):
        tensor = torch.from_numpy(part.copy())
        assert torch.equal(round_to(tensor, name), tensor)
    error = np.abs(spectrum - np.fft.fft2(values)).max()
    assert error <= 300 * FORMATS[name].unit_roundoff


def test_emulator_float64_and_float32_paths_agree():
    """fp16 runs inside float32; rounding every float64 operation by hand gives the same bits."""
    values = torch.from_numpy(np.random.default_rng(2).standard_normal((2, 4000)) * 100.0)
    a, b = round_to(values, "fp16")
    for operation in (torch.mul, torch.add, torch.sub):
        narrow = round_to(operation(a.float(), b.float()), "fp16").double()
        assert torch.equal(round_to(operation(a, b), "fp16"), narrow)


def test_emulator_inverse_undoes_and_axes_select():
    values = np.random.default_rng(3).standard_normal((3, 8, 8))
    spectrum = emulated_fft(values, "fp64", axes=2)
    assert np.allclose(spectrum, np.fft.fft2(values), atol=1e-12)
    assert np.allclose(emulated_fft(spectrum, "fp64", axes=2, inverse=True).real / 64, values, atol=1e-12)
    with pytest.raises(InputError, match="axes must be between 1 and 3"):
        emulated_fft(values, "fp16", axes=4)
    with pytest.raises(InputError, match="powers of two"):
        emulated_fft(np.ones(6), "fp16")


def test_emulator_reaches_64_cubed():
    values = np.random.default_rng(4).standard_normal((64, 64, 64))
    spectrum = emulated_fft(values, "fp16")
    observed = np.abs(spectrum - np.fft.fftn(values)).max() / values.size
    bound = float(
        bound_precision("fp16", (64, 64, 64), mean=float(np.abs(values).mean()), algorithm="fft", scale=2**-4)
    )
    assert 0 < observed <= bound


def test_half_fft_stays_below_its_bound():
    """Every coefficient of 4 fields an example, in the normal, underflow and near-overflow ranges."""
    assert search(check_half_fft, 4, examples=150) >= 550


def test_matrix_products_stay_below_their_bound():
    """Rounded inputs, products, sums and outputs in every combination, in the same three ranges."""
    assert search(check_gemm, 4, examples=250) >= 850


def test_precision_systems_stay_below_their_bound():
    """20 functions an example, underflow and saturation among them."""
    assert search(check_system, 20, examples=100) >= 2000


def test_precision_system_bound_is_attained():
    """1 half way between neighbours, v = 1 and phi = 1: both round up by delta, and 2 delta + delta^2 is the bound."""
    eps, steps = 0.01, 4000
    a0 = (1 - 1e-12) / ((1 + eps) ** 2000 * (1 + eps / 2))
    system = PrecisionSystem(a0, eps, steps)
    up = float(system.quantize(1.0))
    assert up == pytest.approx(1 + system.relative, rel=1e-9)
    assert abs(up * up - 1) / float(bound_precision_system(1.0, a0, eps, steps)) > 0.999


def test_quantizer_takes_the_nearest_element():
    system = PrecisionSystem(0.3, 0.1, 20)
    elements = np.concatenate([-system.level(np.arange(21)), [0.0], system.level(np.arange(21))])
    x = np.concatenate([np.linspace(-3, 3, 5001), [0.0, 0.15, -0.149, 1e-300]])
    distance = np.abs(elements[None] - x[:, None]).min(axis=1)
    assert np.allclose(np.abs(system.quantize(x) - x), distance, atol=1e-15)
    assert system.quantize(0.3 * 1.1**20 * 5) == pytest.approx(system.largest)
    assert system.quantize(1 + 1j) == pytest.approx(float(system.quantize(1.0)) * (1 + 1j))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((0.0, 0.1, 3), "a0 must be a number > 0"), ((1.0, -1, 3), "eps must"), ((1.0, 0.1, 2.5), "steps must be")],
)
def test_precision_system_refuses_nonsense(arguments, said):
    with pytest.raises(InputError, match=said):
        PrecisionSystem(*arguments)


def test_gemm_bound_is_nearly_attained_by_rounded_inputs():
    """v and phi = 1 both just below a rounding boundary is as bad as it gets without underflow."""
    v = np.full(4, 1 + 2.0**-11 * (1 + 1e-9))
    observed = float(precision_error(v, 0, 4, "fp16"))
    assert 0.49 < observed / float(bound_precision("fp16", 4, sup=v[0])) <= 1


def test_every_coefficient_of_ones_is_exact_in_fp16():
    assert float(precision_error(np.ones((8, 8)), (0, 0), 8, "fp16", "fft")) == 0.0
    assert float(precision_error(np.ones((8, 8)), (0, 0), 8, "fp16", "gemm")) == 0.0


def test_precision_error_takes_a_function_and_the_sign_of_the_frequency():
    def v(points):
        return np.sin(2 * np.pi * points[..., 0]) + points[..., 1]

    for algorithm in ("inputs", "gemm", "fft"):
        for w in [(1, 0), (-1, 0), (3, 2), (9, 1)]:
            observed = float(precision_error(v, w, (8, 16), "fp16", algorithm))
            assert observed <= float(bound_precision("fp16", (8, 16), sup=2.0, algorithm=algorithm))
    with pytest.raises(InputError, match="v has shape"):
        precision_error(np.ones(4), 0, 8, "fp16")


def test_overflow_guard_of_the_half_fft():
    """fp16 and |v| <= 1 allow n = 2^15 points and refuse 2^16: a 256 x 256 grid of ones has sum 65536 = inf."""
    assert no_overflow("fp16", (256, 128), 1.0)
    assert not no_overflow("fp16", (256, 256), 1.0)
    assert not no_overflow("fp16", 2**16, 1.0)
    assert not np.isfinite(emulated_fft(np.ones((256, 256)), "fp16")[0, 0])
    assert no_overflow("fp16", (256, 256), 1.0, 2**-2)
    assert no_overflow("bf16", (1024, 1024), 1.0)
    assert math.isinf(float(bound_precision("fp16", (256, 256), sup=1.0, algorithm="fft")))
    assert math.isfinite(float(bound_precision("fp16", (256, 256), sup=1.0, algorithm="fft", scale=0.25)))


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "fp32"])
def test_largest_scale_is_the_largest_power_of_two_that_fits(name):
    for grid, sup in [((64, 64), 1.0), ((8,), 1e-3), ((16, 16, 16), 300.0)]:
        scale = largest_scale(name, grid, sup)
        if scale:
            assert no_overflow(name, grid, sup, scale)
        assert not no_overflow(name, grid, sup, 2 * scale if scale else 2.0**-60)


def test_what_overflows_has_no_finite_bound():
    assert math.isinf(float(bound_precision("fp16", 8, sup=1e5)))
    assert math.isfinite(float(bound_precision("fp16", 8, sup=1e5, scale=0.5)))
    assert math.isinf(float(bound_precision("fp16", 4096, sup=1e4, algorithm="gemm", accumulate="fp16")))
    only_mean = bound_precision("fp16", 4096, mean=100.0)
    assert any("no |v| exceeds 65504" in text for text in only_mean.assumptions)
    assert not any("exceeds" in text for text in bound_precision("fp16", 8, mean=100.0).assumptions)


def test_half_accumulation_of_ones_loses_half_of_them():
    """4096 ones added in fp16 one by one stop at 2048; the bound knows that it may."""
    observed = float(precision_error(np.ones(4096), 0, 4096, "fp16", Algorithm("gemm", accumulate="fp16")))
    assert observed == 0.5
    assert float(bound_precision("fp16", 4096, sup=1.0, algorithm="gemm", accumulate="fp16")) >= 0.5
    assert float(bound_precision("fp16", 4096, sup=1.0, algorithm="gemm")) < 2e-3


def test_truncating_accumulators_are_a_number():
    nearest = float(bound_precision("fp16", 4096, sup=1.0, algorithm="gemm"))
    truncated = float(bound_precision("fp16", 4096, sup=1.0, algorithm="gemm", accumulate=2.0**-23))
    assert nearest < truncated < 2 * nearest
    with pytest.raises(InputError, match="can be emulated"):
        precision_error(np.ones(4), 0, 4, "fp16", Algorithm("gemm", accumulate=2.0**-23))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "needs sup .* or mean"),
        ({"sup": -1}, "sup must be a number >= 0"),
        ({"format": "half", "sup": 1}, "unknown format 'half': expected one of fp64, fp32"),
        ({"grid": 0, "sup": 1}, "grid must have at least one point"),
        ({"grid": (100, 100), "sup": 1, "algorithm": "fft"}, "powers of two"),
        ({"sup": 1, "algorithm": "dft"}, "unknown algorithm 'dft'"),
        ({"sup": 1, "scale": 0}, "scale must be a number > 0"),
        ({"sup": 1, "algorithm": "fft", "output_cast": True}, "belong to 'gemm', not to 'fft'"),
        ({"sup": 1, "accumulate": "fp64"}, "belong to 'gemm', not to 'inputs'"),
    ],
)
def test_precision_refuses_nonsense(arguments, said):
    call = {"format": "fp16", "grid": 8} | arguments
    with pytest.raises(InputError, match=said):
        bound_precision(call.pop("format"), call.pop("grid"), **call)


@pytest.mark.parametrize(
    ("name", "cast", "half_fft"),
    [("fp16", 512, (32, 32, 16)), ("tf32", 512, (32, 32, 16)), ("bf16", 64, (8, 8, 4)), ("fp8_e4m3", 4, (2, 2, 1))],
)
def test_crossover_table(name, cast, half_fft):
    for dimension, fft in enumerate(half_fft, start=1):
        assert crossover(name, dimension, 1.0) == cast
        assert 0.9 * cast <= crossover(name, dimension, 1.0, "gemm") <= cast
        assert crossover(name, dimension, 1.0, "fft") == fft


def test_crossover_grows_with_roughness_and_refuses_nonsense():
    assert crossover("fp16", 1, 0.1) < crossover("fp16", 1, 1.0) < crossover("fp16", 1, 50.0)
    assert crossover("fp8_e5m2", 1, 0.01) == 0
    with pytest.raises(InputError, match="dimension must be"):
        crossover("fp16", 0, 1.0)
    with pytest.raises(InputError, match="lipschitz_over_sup must be a number > 0"):
        crossover("fp16", 1, 0.0)


@pytest.mark.parametrize("name", list(FORMATS))
def test_rounding_constants_hold_and_are_attained(name):
    format, unit = FORMATS[name], roundoff_of(FORMATS[name])
    rng = np.random.default_rng(6)
    low, high = max(format.min_exponent - format.precision - 3, -1060), min(int(math.log2(format.largest)), 1020)
    x = torch.from_numpy(rng.uniform(1, 2, 20000) * 2.0 ** rng.integers(low, high, 20000))
    error = (round_to(x, format) - x).abs()
    assert torch.all(error <= torch.maximum(unit.relative * x, torch.tensor(unit.absolute, dtype=torch.float64)))
    if name != "fp64":
        middle = torch.tensor([1 + format.unit_roundoff, format.smallest_subnormal / 2], dtype=torch.float64)
        worst = (round_to(middle, format) - middle).abs()
        assert float(worst[0] / middle[0]) == pytest.approx(unit.relative)
        assert float(worst[1]) == unit.absolute
