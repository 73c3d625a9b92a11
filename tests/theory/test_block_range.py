"""No overflow as a part of the block's bound: each stage's largest number, and data that reach at least half of it."""

import math

import numpy as np
import pytest
import torch
from adversary import reaches
from emulated_block import emulated_block, exact_block, frequencies, rms, weight_norms

from halfwave.numerics import FORMATS, split
from halfwave.theory import Pipeline, bound_block, bound_precision
from halfwave.theory.block_range import contraction_peaks, forward_peaks, input_peak, inverse_peak
from halfwave.theory.pipeline import ErrorState


def peaks_of(peaks):
    return {peak.stage: peak for peak in peaks}


def test_all_of_a_field_in_one_point():
    """A pulse of size 64 on 64 x 64 points has norm 1; where sup is known, that is it."""
    pulse = np.zeros((1, 64, 64))
    pulse[0, 0, 0] = 64.0
    assert rms(pulse) == pytest.approx(1.0)
    assert input_peak(1.0, 64 * 64, None) == 64.0
    assert input_peak(1.0, 64 * 64, 3.0) == 3.0
    found = peaks_of(forward_peaks(Pipeline(), (64, 64), 1.0, 64.0))
    reaches(64.0, found["input"].value, found["input"].value)


@pytest.mark.parametrize("transform", ["gemm", "cast", "fft"])
def test_the_forward_transform_of_a_constant(transform):
    """Means of a constant are the constant; the sum of an FFT is n times that."""
    found = peaks_of(forward_peaks(Pipeline(transform=transform), (64, 64), 3.0, 3.0))["forward transform"]
    reaches(3.0 if transform == "gemm" else 3.0 * 64 * 64, found.value, found.value)


def test_the_contraction_of_equal_channels():
    """16 channels of one size and weights of one size: their sum is ra times the norm."""
    x, weights = np.full(16, 0.25), np.full((1, 16), 2.0)
    _, ra = weight_norms(weights)
    state = ErrorState(float(np.linalg.norm(x)), 0.0, None)
    after = ErrorState(float(weights[0] @ x), 0.0, None)
    for peak in contraction_peaks(Pipeline(), ra, 32, state, after):
        reaches(float(weights[0] @ x), peak.value, peak.value)
    # What a bias adds is in the spectrum after.
    more = ErrorState(after.norm + 100.0, 0.0, None)
    found = peaks_of(contraction_peaks(Pipeline(), ra, 32, state, more))["contraction"]
    reaches(after.norm + 100.0, found.value, found.value)


@pytest.mark.parametrize("name", ["bf16x2", "bf16x3"])
def test_products_of_parts_reach_further_than_their_sum(name):
    """The first parts of numbers just above half a spacing are larger by 2^-8 each: so are partial sums of them."""
    tie = 1 + 2.0**-8 + 2.0**-16
    first = float(split(torch.tensor([tie]), 2)[0]) ** 2
    assert first > tie**2 * (1 + 2.0**-8)
    state = ErrorState(tie, 0.0, None)
    pipeline = Pipeline.uniform(name)
    found = peaks_of(contraction_peaks(pipeline, tie, 2, state, state))["sums of the contraction"]
    assert first <= found.value <= 1.02 * tie**2
    matrices = peaks_of(forward_peaks(pipeline, (1,), tie, tie))["forward transform"]
    assert tie * (1 + 2.0**-7) <= matrices.value <= 1.02 * tie
    # The sum of two ends above what fp32 holds, but not its exact value.
    assert float(bound_precision(name, 2, sup=1.69e38, algorithm="gemm")) == math.inf
    assert math.isfinite(float(bound_precision("fp32", 2, sup=1.69e38, algorithm="gemm")))


@pytest.mark.parametrize("transform", ["gemm", "cast", "fft"])
def test_all_modes_in_one_point(transform):
    """A pulse has modes of one size: they meet where it stands, sqrt(K) times their norm."""
    grid = (16, 16)
    pulse = np.zeros((1, *grid))
    pulse[0, 3, 5] = 256.0
    kept = [len(w) for w in frequencies(grid, (16, 16))]
    weights = np.ones((*kept, 1, 1), dtype=complex)
    field = exact_block(pulse, weights, grid, (16, 16))
    found = inverse_peak(Pipeline(transform=transform), grid, 256, ErrorState(rms(pulse), 0.0, None))
    reaches(float(field.max()) * (1 - 1e-12), found.value, found.value)


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("input", {"norm": 2000.0}),
        ("forward transform", {"norm": 30.0, "pipeline": Pipeline(transform="fft")}),
        ("contraction", {"r2": 1e5, "ra": 1e5}),
        ("inverse transform", {"r2": 3000.0, "ra": 3000.0}),
        ("contraction", {"bias": 7e4}),
    ],
)
def test_what_may_overflow_is_no_guarantee(stage, change):
    """fp16 ends at 65504; in bf16 the same data are safe."""
    call = {"grid": (64, 64), "modes": (32, 32), "in_channels": 2, "out_channels": 2, "r2": 1.0, "ra": 1.0, "norm": 1.0}
    pipeline = change.get("pipeline", Pipeline())
    call |= {key: value for key, value in change.items() if key != "pipeline"}
    bound = bound_block(pipeline, **call)
    assert not bound.guaranteed
    assert math.isfinite(bound.value)
    assert any("not excluded" in text and f"{stage} to" in text for text in bound.assumptions)
    wide = Pipeline(*["bf16"] * 4, pipeline.transform)
    assert bound_block(wide, **call).guaranteed
    assert any("excluded in every stage" in text for text in bound_block(wide, **call).assumptions)


def test_sup_excludes_what_norms_do_not():
    call = {"grid": (64, 64), "modes": (8, 8), "in_channels": 2, "out_channels": 2, "r2": 1.0, "ra": 1.0}
    assert not bound_block("fp16", **call, norm=2000.0).guaranteed
    assert bound_block("fp16", **call, norm=2000.0, sup=5000.0).guaranteed


def test_what_is_said_to_fit_fits():
    """Random fields as large as the check allows: no pipeline gives inf; twice the worst one does."""
    rng = np.random.default_rng(0)
    grid, modes = (8, 8), (8, 8)
    kept = [len(w) for w in frequencies(grid, modes)]
    weights = np.ones((*kept, 1, 1), dtype=complex)
    sizes = {"grid": grid, "modes": modes, "in_channels": 1, "out_channels": 1, "r2": 1.0, "ra": 1.0}
    for transform in ("gemm", "cast", "fft"):
        pipeline = Pipeline.uniform("fp8_e4m3", transform)
        shapes = [np.ones((1, *grid)), rng.standard_normal((1, *grid)), np.eye(8)[None], np.zeros((1, *grid))]
        shapes[-1][0, 2, 3] = 1.0
        for shape in shapes:
            sup = np.abs(shape).max()
            fits = [s for s in np.geomspace(0.1, 500, 60) if _guaranteed(pipeline, sizes, shape * s, sup * s)]
            assert fits
            with np.errstate(all="ignore"):
                assert np.all(np.isfinite(emulated_block(shape * fits[-1], weights, grid, modes, pipeline)))
        ones = np.full((1, *grid), FORMATS["fp8_e4m3"].largest * (1.1 if transform == "gemm" else 1.1 / 64))
        with np.errstate(all="ignore"):
            assert not np.all(np.isfinite(emulated_block(ones, weights, grid, modes, pipeline)))


def _guaranteed(pipeline, sizes, field, sup):
    bound = bound_block(pipeline, **sizes, norm=rms(field), sup=sup)
    return not any("not excluded" in text for text in bound.assumptions)
