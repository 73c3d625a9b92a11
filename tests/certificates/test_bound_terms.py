"""What a model's bound adds to the theorems, term by term: each reached at least half by a case of its own."""

import math

import pytest
import torch

import halfwave as hw
from halfwave.certificates.conv_bound import bound_conv, pipeline_of, weight_norms
from halfwave.certificates.network_bound import (
    GELU_ULPS,
    ConvolutionErrors,
    Value,
    _activated,
    _add_skip,
    _linear,
    bound_block_output,
    coordinate_error,
)
from halfwave.certificates.norms import matrix_norms, vector_norm
from halfwave.certificates.observing import Observation
from halfwave.models.block import Skip
from halfwave.numerics import FORMATS, arithmetic_of, cpu_multiplies, round_to
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv

CPU = torch.device("cpu")
FP8 = arithmetic_of("fp8_e4m3", "cpu")
TIE = 1 + 2.0**-4
U = 2.0**-4 / TIE


def conv_of(precision="fp8_e4m3", **options):
    torch.manual_seed(0)
    return SpectralConv(2, 2, (3,), precision=Policy.uniform(precision), backend="gemm", **options)


def bound(conv, norm, device=CPU):
    return bound_conv(conv, (8,), device, norm, weight_norms(conv, (8,)))


def test_norms():
    """Of (3, 4) it is 5; moduli of a rotation's entries have norm sqrt2 where it has 1."""
    assert vector_norm(torch.tensor([3.0, 4.0])) == pytest.approx(5.0, rel=1e-9)
    assert vector_norm(torch.tensor([3.0, 4.0])) >= 5.0
    c = math.sqrt(0.5)
    spectral, moduli = matrix_norms(torch.tensor([[c, -c], [c, c]], dtype=torch.float64))
    assert spectral == pytest.approx(1.0, rel=1e-6)
    assert moduli == pytest.approx(math.sqrt(2), rel=1e-6)


def test_bias_of_a_convolution():
    """Zero input, a bias half way between two numbers of fp8: all of the error is the bias's."""
    conv = conv_of()
    with torch.no_grad():
        conv.bias.fill_(TIE)
        lost = conv(torch.zeros(1, 2, 8)).double() - TIE
    error = float(lost.square().sum(1).mean().sqrt())
    assert error >= 0.5 * U * TIE * math.sqrt(2)
    assert error <= bound(conv, 0.0).value


def test_moduli_of_weights():
    """Weights whose signs cancel: the rounding errors of their entries do not."""
    conv = conv_of(bias=False)
    with torch.no_grad():
        conv.weight.weight.zero_()
        # The mean's matrix: a tie in each entry, orthogonal columns.
        conv.weight.weight[0, :, 0, :] = TIE * torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    r2, ra = weight_norms(conv, (8,))
    assert ra > 1.4 * r2
    weights = TIE * torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    lost = (round_to(weights, "fp8_e4m3") - weights).abs()
    assert float(torch.linalg.matrix_norm(lost, 2)) >= 0.5 * U * ra
    smaller = bound_conv(conv, (8,), CPU, 1.0, (r2, r2))
    assert bound(conv, 1.0).value > smaller.value + 0.5 * U * (ra - r2)


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_pipeline_of_native_products(name):
    conv = conv_of(name)
    with cpu_multiplies("bf16", "fp16"):
        pipeline = pipeline_of(conv, (8,), CPU)
    assert pipeline.cast_every_step
    assert pipeline.flush_to_zero == (name == "bf16")
    with cpu_multiplies():
        pipeline = pipeline_of(conv, (8,), CPU)
    assert not pipeline.cast_every_step
    assert not pipeline.flush_to_zero


@pytest.mark.parametrize("name", ["bf16x2", "bf16x3"])
def test_pipeline_of_products_by_parts(name):
    """What lies between two products is split for the second; bf16 instructions flush, those of fp32 do not."""
    conv = conv_of(name)
    with cpu_multiplies("bf16"):
        pipeline = pipeline_of(conv, (8,), CPU)
    assert pipeline.cast_every_step
    assert pipeline.flush_to_zero
    assert pipeline.sums.flushes
    with cpu_multiplies():
        pipeline = pipeline_of(conv, (8,), CPU)
    assert pipeline.cast_every_step
    assert not pipeline.flush_to_zero
    assert not pipeline.sums.flushes
    assert pipeline.forward == name


def test_sums_of_the_device():
    """On a CPU they are known; on CUDA torch may round them on the way, and the bound is an estimate that says so."""
    conv = conv_of("fp16")
    assert bound(conv, 1.0).guaranteed
    found = bound(conv, 1.0, torch.device("cuda"))
    assert not found.guaranteed
    assert any("allow_fp16_reduced_precision_reduction" in text for text in found.assumptions)
    assert found.value > bound(conv, 1.0).value


def test_half_ffts_of_a_device_are_estimates(monkeypatch):
    monkeypatch.setattr("halfwave.numerics.accumulators._tensor_cores", lambda device: "A100")
    switches = {"allow_fp16_reduced_precision_reduction": False, "allow_tf32": False}
    monkeypatch.setattr("torch.backends.cuda.matmul", type("Switches", (), switches)())
    known = conv_of("fp16", bias=False)
    assert pipeline_of(known, (8,), torch.device("cuda")).sums.known
    torch.manual_seed(0)
    conv = SpectralConv(2, 2, (3,), precision=Policy.uniform("fp16", "none"), backend="fft")
    pipeline = pipeline_of(conv, (8,), torch.device("cuda"))
    assert pipeline.transform == "fft"
    assert not pipeline.sums.known
    assert "cuFFT" in pipeline.sums.source


def test_products_in_tf32():
    conv = conv_of("fp32")
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert pipeline_of(conv, (8,), torch.device("cuda")).forward == "tf32"
        found = bound(conv, 1.0, torch.device("cuda"))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert found.value > 1000 * bound(conv, 1.0).value


def test_overflow_of_a_convolution():
    """Weights of 1e5: the contraction may pass the end of fp16, and the certificate says so; sup excludes the input."""
    conv = conv_of("fp16", bias=False)
    assert bound(conv, 1.0).guaranteed
    with torch.no_grad():
        conv.weight.weight.mul_(1e5 / weight_norms(conv, (8,))[0])
    found = bound(conv, 1.0)
    assert not found.guaranteed
    assert any("contraction to" in text and "not excluded" in text for text in found.assumptions)
    small = conv_of("fp16", bias=False)
    norms = weight_norms(small, (8,))
    assert not bound_conv(small, (8,), CPU, 3e4, norms).guaranteed
    with torch.no_grad():
        small.weight.weight.mul_(0.1 / norms[0])
    assert bound_conv(small, (8,), CPU, 3e4, weight_norms(small, (8,)), sup=4e4).guaranteed


def value(number, local=0.0, total=0.0):
    return Value(torch.full((1, 1, 4), number, dtype=torch.float64), local, total)


def test_coordinates():
    """fp32 holds i/3 and i/7 to half a unit; in a box three roundings."""
    model = hw.FNO((2, 2), 1, 1, 2, n_layers=1)
    worst = max(abs(float(torch.tensor(i / n, dtype=torch.float32)) - i / n) for n in range(2, 200) for i in range(n))
    assert 0.5 * coordinate_error(model) <= worst * math.sqrt(2) <= coordinate_error(model) * (1 + 1e-12)
    boxed = hw.FNO((2, 2), 1, 1, 2, n_layers=1)
    boxed.positional_embedding.grid_boundaries = [(-5.0, 7.0), (0.0, 1.0)]
    assert coordinate_error(boxed) == 3 * 2.0**-24 * math.hypot(12.0, 1.0)


def test_one_linear_map():
    """A tie in the weight, and another where the bias is added to a product that was rounded itself."""
    plain = _linear(value(1.0), torch.tensor([[TIE]]), None, FP8)
    assert plain.total >= 2.0**-4
    assert plain.total <= 4 * 2.0**-4
    # 17/16 is rounded to 1, and 1 + 3/16 to 1.25, away from 1.25 + 1/16 - ... : two roundings of the sum.
    with_bias = _linear(value(1.0), torch.tensor([[TIE]]), torch.tensor([0.0]), FP8)
    assert with_bias.total >= plain.total + 0.9 * U * TIE


def test_flushed_products():
    """Zeros in bf16: what instructions flush is more than the bound of gradual underflow, and is charged."""
    found = _linear(value(0.0), torch.zeros(1, 1), None, arithmetic_of("bf16", "cpu"))
    assert found.total >= 64 * FORMATS["bf16"].smallest_normal


def test_nonlinearity():
    """Eight units of fp32 are assumed, and the result is stored in the format: a tie of relu is rounded."""
    entered = value(TIE)
    found = _activated(entered, "relu", FP8)
    assert 2.0**-4 <= found.total <= 1.01 * U * TIE + 2 * FORMATS["fp8_e4m3"].smallest_subnormal
    wide = _activated(entered, "relu", arithmetic_of("fp32", "cpu"))
    assert wide.total >= GELU_ULPS * 2.0**-24 * TIE


def test_skips():
    """Both branches' errors add up, and their sum is rounded: 1 + 1/16 is a tie."""
    skip = Skip("identity", 1)
    found = _add_skip(value(1.0, 0.0, 0.1), value(2.0**-4, 0.0, 0.2), skip, FP8)
    assert found.total >= 0.3 + 2.0**-4
    assert found.total <= 0.3 + 1.01 * U * TIE + FORMATS["fp8_e4m3"].smallest_subnormal
    assert found.local >= 2.0**-4


def test_norm_of_a_computed_value():
    """What is rounded is the computed value: larger than the exact one by its error."""
    exact = value(0.0, local=TIE)
    found = _activated(exact, "relu", FP8)
    assert found.local - TIE >= 2.0**-4


def test_convolution_loaded():
    """The convolution's answer is rounded to the block's format before the skip is added."""
    model = hw.FNO((2,), 1, 1, 1, n_layers=1, channel_mlp_expansion=None, fno_skip=None, precision="full")
    block = model.blocks[0]
    block.set_precision(Policy.uniform("fp8_e4m3"))
    x, y = torch.full((1, 1, 4), 0.0), torch.full((1, 1, 4), TIE)
    seen = Observation(y, {"blocks.0": x}, {"blocks.0.conv": y})
    found = bound_block_output(block, "blocks.0", seen, 0.0, ConvolutionErrors(0.0, ()))
    # Loaded, and stored: two roundings of 17/16.
    assert found >= 2 * 2.0**-4
