"""Each term of the precision bounds of one coefficient: a case that reaches at least half of it."""

import math

import numpy as np
import pytest
import torch
from adversary import reaches, worst_fft, worst_sum

from halfwave.numerics import FORMATS, Accumulation, kept_products, round_to
from halfwave.theory import Algorithm, PrecisionSystem, bound_precision, bound_precision_system, precision_error
from halfwave.theory.measured import modes_on_grid, read_lattice
from halfwave.theory.overflow import fft_growth, fft_losses, fft_peak
from halfwave.theory.roundoff import roundoff_of

FP8 = roundoff_of(FORMATS["fp8_e4m3"])
FP16 = roundoff_of(FORMATS["fp16"])


def rounded(x, name):
    parts = (round_to(torch.as_tensor(part, dtype=torch.float64), name).numpy() for part in (np.real(x), np.imag(x)))
    return next(parts) + 1j * next(parts)


def pulse(points, position, size):
    v = np.zeros(points)
    v[position] = size
    return v


def test_rounding_of_values_and_modes():
    """One value and one mode that both round up by nearly as much as they can: 1.73 u' of 2.06 u'."""
    size = 256 * (1.0625 + 1e-9)
    observed = float(precision_error(pulse(56, 5, size), 1, 56, "fp8_e4m3"))
    bound = float(bound_precision("fp8_e4m3", 56, sup=size, mean=size / 56))
    for relative in (FP8.relative, FP8.unit_error()):
        reaches(observed, relative * size / 56, bound)
        assert observed > 1.01 * relative * size / 56 + FP8.absolute / 56


def test_underflow_of_values():
    """Half the smallest number is lost, and the bound is little more."""
    observed = float(precision_error(np.full(4, FP8.absolute), 0, 4, "fp8_e4m3"))
    assert observed == FP8.absolute
    reaches(observed, FP8.absolute, bound_precision("fp8_e4m3", 4, sup=FP8.absolute))


def test_rounding_of_products():
    size = 256 * (1.1875 - 1e-9)
    algorithm = Algorithm("gemm", accumulate="fp64", products_rounded=True)
    observed = float(precision_error(pulse(25, 1, size), 1, 25, "fp8_e4m3", algorithm))
    options = {"algorithm": "gemm", "accumulate": "fp64", "products_rounded": True}
    bound = float(bound_precision("fp8_e4m3", 25, sup=size, mean=size / 25, **options))
    reaches(observed, FP8.relative * size / 25, bound)
    assert observed > (1 + FP8.relative) * (1 + FP8.unit_error()) * size / 25 - size / 25


def _against(eta, side, name):
    """Multiples of the smallest number, each chosen so that its products lose as much as possible in one direction."""
    phi = modes_on_grid(read_lattice(1, side))
    choices = np.concatenate([np.arange(1, 60), -np.arange(1, 60)]) * 2 * eta
    exact = rounded(phi, name)[:, None] * choices
    lost = (rounded(exact, name) - exact) * np.exp(-0.25j * np.pi)
    return choices[lost.real.argmax(axis=1)]


def test_underflow_of_products():
    """Both parts of every product lose nearly eta: of sqrt2 eta."""
    v = _against(FP16.absolute, 64, "fp16")
    options = {"accumulate": "fp64", "products_rounded": True}
    observed = float(precision_error(v, 1, 64, "fp16", Algorithm("gemm", **options)))
    bound = bound_precision("fp16", 64, sup=np.abs(v).max(), mean=np.abs(v).mean(), algorithm="gemm", **options)
    reaches(observed, math.sqrt(2) * FP16.absolute, bound)


def test_products_that_parts_leave_out():
    """A value and a mode whose second parts are as large as they can be: 2^-8 of each, and their product is missing."""
    value = 1 + 2.0**-8 - 2.0**-16
    phi = modes_on_grid(read_lattice(1, 4096))
    place = int(np.abs(phi - rounded(phi, "bf16")).argmax())
    v = pulse(4096, place, value)
    algorithm = Algorithm("gemm", accumulate="fp64")
    observed = float(precision_error(v, 1, 4096, "bf16x2", algorithm))
    bound = bound_precision("bf16x2", 4096, sup=value, mean=v.mean(), algorithm="gemm", accumulate="fp64")
    reaches(observed, 2.0**-16 * value / 4096, bound)
    # Multiplied as a whole they are off by the rounding of the mode alone.
    assert observed > 1.5 * float(precision_error(v, 1, 4096, "bf16x2"))


def test_underflow_of_products_of_parts():
    """Three products of parts, each half the smallest number of fp32: all are lost, where a whole one would not be."""
    unit = 2.0**-75
    a = torch.tensor([unit * (1 + 2.0**-8 - 2.0**-16)], dtype=torch.float64)
    kept = [float(x * y) for x, y in kept_products(a, a, 2)]
    lost = sum(abs(product - float(np.float32(product))) for product in kept)
    eta = roundoff_of(FORMATS["fp32"]).absolute
    options = {"algorithm": "gemm", "sup": 0.0}
    found = float(bound_precision("bf16x2", 1, **options)) - float(bound_precision("bf16x2", 1, sup=0.0))
    assert lost <= 3 * eta <= found
    assert found > 4.2 * eta


def test_rounding_of_products_in_the_accumulator():
    """Formats whose products do not fit the accumulator: the same losses there."""
    v = _against(FP16.absolute, 64, "fp16")
    observed = float(precision_error(v, 1, 64, "fp16", Algorithm("gemm", accumulate="fp16")))
    sizes = {"sup": np.abs(v).max(), "mean": np.abs(v).mean()}
    reaches(
        observed,
        math.sqrt(2) * FP16.absolute,
        bound_precision("fp16", 64, **sizes, algorithm="gemm", accumulate="fp16"),
    )


@pytest.mark.parametrize("accumulate", ["fp16", Accumulation(FORMATS["fp32"], 2.0**-11, nearest=False)])
def test_rounding_of_sums(accumulate):
    """1 and 63 half units, each of which is lost to it; or 63 zeros, and a sum that grows by its unit each time."""
    u, n = 2.0**-11, 64
    if accumulate == "fp16":
        v = np.array([1.0, *[u] * (n - 1)])
        observed = float(precision_error(v, 0, n, "fp16", Algorithm("gemm", accumulate=accumulate)))
    else:
        v = pulse(n, 0, 1.0)
        observed = abs(worst_sum(v, u) - 1.0) / n
    bound = float(bound_precision("fp16", n, sup=1.0, mean=v.mean(), algorithm="gemm", accumulate=accumulate))
    reaches(observed, v.mean() * (n - 1) * u, bound)
    assert observed > 0.5 * bound


def test_cast_of_the_output():
    """The mean of 1 and 1.125 is half way between them in fp8."""
    v = np.array([1.0, 1.125])
    options = {"accumulate": "fp64", "output_cast": True}
    observed = float(precision_error(v, 0, 2, "fp8_e4m3", Algorithm("gemm", **options)))
    reaches(
        observed, FP8.relative * v.mean(), bound_precision("fp8_e4m3", 2, mean=v.mean(), algorithm="gemm", **options)
    )
    tiny = np.array([0.0, 2 * FP8.absolute])
    lost = float(precision_error(tiny, 0, 2, "fp8_e4m3", Algorithm("gemm", **options)))
    bound = bound_precision("fp8_e4m3", 2, mean=tiny.mean(), algorithm="gemm", **options)
    reaches(lost, math.sqrt(2) * FP8.absolute, bound)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp16"])
@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_roundings_of_an_fft(name, n):
    """Every operation too large by all that it may be, and one value, which every twiddle factor meets."""
    unit = roundoff_of(FORMATS[name])
    v = pulse(n, n - 1, 0.001 * n)
    computed = worst_fft(v * (1 + unit.relative), unit.relative, unit.unit_error(), unit.product_error())
    observed = float(np.abs(computed - np.fft.fft(v)).max()) / n
    bound = float(bound_precision(name, n, mean=0.001, algorithm="fft"))
    relative = 0.001 * ((1 + unit.relative) * fft_growth(unit, (n,)).factor - 1)
    assert observed > 0.999 * relative
    reaches(observed, relative, bound)


def test_underflow_of_an_ffts_input():
    v = np.full(8, FP16.absolute)
    observed = float(precision_error(v, 0, 8, "fp16", "fft"))
    assert observed == FP16.absolute
    reaches(observed, FP16.absolute, bound_precision("fp16", 8, sup=FP16.absolute, algorithm="fft"))


def test_underflow_of_an_ffts_products():
    """The twiddle factor of 45 degrees times 12 - 5i smallest numbers: both parts of the product lose nearly 2 eta."""
    unit = 2 * FP16.absolute
    v = np.array([0, 12, 0, 5, 0, 0, 0, 0]) * unit
    observed = float(precision_error(v, 1, 8, "fp16", "fft"))
    assert fft_losses((8,)) == pytest.approx(2 * math.sqrt(2) / 8)
    reaches(observed, fft_losses((8,)) * FP16.absolute, bound_precision("fp16", 8, mean=v.mean(), algorithm="fft"))


@pytest.mark.parametrize("n", [8, 32, 256])
def test_losses_of_every_butterfly(n):
    """Products that lose the same number everywhere: it meets itself in the first coefficient."""
    computed = worst_fft(np.zeros(n), 0.0, 0.0, 0.0, lost=2 * math.sqrt(2))
    assert np.abs(computed).max() / n >= 0.5 * fft_losses((n,))
    assert np.abs(computed).max() / n <= fft_losses((n,)) * (1 + 1e-12)
    size = np.linalg.norm(computed) / n
    assert 0.5 * fft_losses((n,), math.sqrt(2)) <= size <= fft_losses((n,), math.sqrt(2)) * (1 + 1e-12)


def test_complex_products():
    """2.03 u' of 2.41 u': more than either of the two parts of rho."""
    a, b, c, d = -0.67236328125, 0.6748046875, -0.75, 0.75634765625
    products = [float(rounded(x, "fp16").real) for x in (a * c, b * d, a * d, b * c)]
    computed = complex(*(rounded(x, "fp16").real for x in (products[0] - products[1], products[2] + products[3])))
    exact = (a + 1j * b) * (c + 1j * d)
    observed = abs(computed - exact) / abs(exact)
    reaches(observed, FP16.product_error(), FP16.product_error())
    assert observed > 1.4 * math.sqrt(2) * FP16.relative


def test_modes_with_a_part_below_the_normal_range():
    """A mode stored at a small scale: one part is subnormal, or both are lost."""
    scale = math.sqrt(2) * FP8.smallest_normal
    real = FP8.smallest_normal * (1 + 2.0**-4) / scale
    phi = complex(real + 1e-9, math.sqrt(1 - real**2))
    observed = abs(complex(rounded(phi * scale, "fp8_e4m3")) / scale - phi)
    reaches(observed, FP8.unit_error(scale), FP8.unit_error(scale))
    assert observed > 1.01 * FP8.relative
    small = FP8.absolute * math.sqrt(2)
    phi = complex(math.sqrt(0.5), math.sqrt(0.5))
    observed = abs(complex(rounded(phi * small * (1 - 1e-12), "fp8_e4m3")) - phi * small) / small
    reaches(observed, FP8.unit_error(small), FP8.unit_error(small))
    assert observed > 0.99


@pytest.mark.parametrize("n", [2, 64])
def test_peak_of_an_fft(n):
    """One value, too large by every rounding on the way."""
    size = 100.0
    entered = pulse(n, n - 1, n * size * (1 + FP16.relative))
    computed = worst_fft(entered, FP16.relative, FP16.unit_error(), FP16.product_error())
    peak = fft_peak(FORMATS["fp16"], (n,), size, 1.0)
    assert 0.999 * peak <= np.abs(computed).max() <= peak


def test_losses_raise_the_peak():
    """Zeros are not zero in an FFT that loses eta in every product, and in every number that enters."""
    eta, each = FP8.absolute, (FP8.relative, FP8.unit_error(), FP8.product_error())
    computed = worst_fft(np.full(64, eta), *each, lost=2 * math.sqrt(2) * eta)
    peak = fft_peak(FORMATS["fp8_e4m3"], (64,), 0.0, 1.0)
    assert 0.5 * peak <= np.abs(computed).max() <= peak


def test_precision_systems():
    """Both roundings up (attained with their product), underflow, saturation, modes out of range."""
    eps = 0.01
    a0 = (1 - 1e-12) / ((1 + eps) ** 2000 * (1 + eps / 2))
    system = PrecisionSystem(a0, eps, 4000)
    up = float(system.quantize(1.0))
    bound = float(bound_precision_system(1.0, a0, eps, 4000))
    assert bound - 0.9 * system.relative**2 < up * up - 1 <= bound
    for size in (a0 / 2.001, 3 * system.largest):
        lost = abs(size - float(system.quantize(size)) * up)
        reaches(lost, system.error(size), bound_precision_system(size, a0, eps, 4000))
    short = PrecisionSystem(0.01, 0.5, 4)
    phi = complex(math.sqrt(0.5), math.sqrt(0.5))
    observed = abs(complex(short.quantize(phi)) - phi)
    reaches(observed, short.mode_error(), short.mode_error())
    rough = PrecisionSystem(0.3, 1e-6, 10_000_000)
    observed = abs(
        complex(rough.quantize(complex(math.sqrt(1 - 0.15**2), 0.15))) - complex(math.sqrt(1 - 0.15**2), 0.15)
    )
    reaches(observed, rough.mode_error(), rough.mode_error())


def test_flushed_sums():
    """Numbers just below the normal range, added up where that is zero."""
    smallest = FORMATS["fp16"].smallest_normal
    sums = Accumulation(FORMATS["fp16"], 2.0**-11, flushes=True)
    options = {"algorithm": "gemm", "accumulate": sums, "products_rounded": True}
    reaches(0.99 * smallest, math.sqrt(2) * smallest, bound_precision("fp16", 4, sup=0.99 * smallest, **options))


def test_unknown_sums_are_no_guarantee():
    unknown = Accumulation(FORMATS["fp32"], 2.0**-22, nearest=False, source="a device", known=False)
    assert bound_precision("fp16", 8, sup=1, algorithm="gemm").guaranteed
    bound = bound_precision("fp16", 8, sup=1, algorithm="gemm", accumulate=unknown)
    assert not bound.guaranteed
    assert "a device; not known" in str(bound)
