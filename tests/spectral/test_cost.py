"""The cost model of `backend="auto"`: its counts, its words, its choices."""

import math

import pytest
import torch

from halfwave.numerics import arithmetic_of
from halfwave.spectral import FourierTransform, estimate_transform
from halfwave.spectral.cost import RATES, cheaper_backend, fft_work, gemm_work
from halfwave.spectral.modes import AxisModes, kept_modes

pytestmark = pytest.mark.hardware


def test_work_counted_by_hand():
    """8 x 10 points, 4 x 6 modes: (8, 10) x (10, 2*4) along the last axis, then (2*4, 2*8) x (2*8, 4)."""
    modes = kept_modes((8, 10), (4, 6))
    assert gemm_work(modes) == (2 * 8 * 10 * 8, 2 * 8 * 16 * 4, 80, 16)
    assert fft_work(modes) == (80 * math.log2(80), 80, 16)
    assert fft_work(kept_modes((8, 17), (4, 6)))[1] == pytest.approx(136 * math.log2(136)), "17 is a large prime"


def test_estimates_print_both_backends_and_the_choice():
    cost = estimate_transform((128, 128), (64, 64), fields=512, format="fp32")
    text = str(cost)
    assert text.startswith("512 fields of 128x128 points, 64x33 modes, fp32 (native) on cpu: gemm ")
    assert text.endswith(f"auto takes {cost.cheaper}")
    assert cost.gemm == pytest.approx(512 * estimate_transform((128, 128), (64, 64)).gemm)
    assert "cannot overflow" in str(estimate_transform((64,), 16, format="fp16"))


@pytest.mark.parametrize("format", ["fp32", "bf16"])
def test_few_modes_take_gemm_and_many_take_fft(format):
    assert estimate_transform((256, 256), (16, 16), format=format).cheaper == "gemm"
    assert estimate_transform((4096,), 4096, format=format).cheaper == "fft"


def test_the_transform_takes_the_cheaper_one():
    for grid, modes in [((256, 256), (16, 16)), ((4096,), (4096,))]:
        transform = FourierTransform(modes)
        expected = estimate_transform(grid, modes).cheaper
        assert transform.plan(grid, arithmetic_of("fp32", "cpu"), torch.device("cpu")).backend == expected


def test_a_narrow_range_never_takes_the_fft():
    modes = (AxisModes(4096, 0, 2049, 0),)
    assert cheaper_backend(modes, arithmetic_of("fp16", "cpu"), torch.device("cpu")) == "gemm"


def test_every_device_has_rates_for_every_arithmetic():
    kinds = {"full", "wide", "native", "emulated"}
    for device, rates in RATES.items():
        assert rates.keys() == kinds, device
        assert all(len(r.gemm) == 4 and len(r.fft) == 3 and min(*r.gemm, *r.fft) >= 0 for r in rates.values())


def test_unknown_arguments_raise():
    with pytest.raises(ValueError, match="unknown format 'fp4'"):
        estimate_transform((64,), 16, format="fp4")
    with pytest.raises(ValueError, match="needs 1 grid axes"):
        estimate_transform((64, 64), 16)
