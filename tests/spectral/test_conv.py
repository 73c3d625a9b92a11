"""The spectral convolution against neuraloperator, against float64, and in every format."""

import pytest
import torch
from neuralop.layers.spectral_convolution import SpectralConv as PeerConv

from halfwave.numerics import FORMATS, arithmetic
from halfwave.precision import Policy
from halfwave.spectral import FourierTransform, SpectralConv

GRIDS = [
    ((32,), (16,)),
    ((33,), (16,)),
    ((20,), (40,)),
    ((32, 48), (12, 20)),
    ((33, 47), (12, 21)),
    ((16, 16), (16, 16)),
    ((9, 11), (12, 20)),
    ((12, 16, 10), (6, 8, 4)),
    ((7, 5, 9), (6, 8, 10)),
]


def _pair(grid, modes, **options):
    torch.manual_seed(0)
    peer = PeerConv(3, 5, modes)
    ours = SpectralConv(3, 5, modes, **options)
    ours.weight.set_dense(peer.weight.to_tensor())
    ours.bias.data = peer.bias.detach().flatten()
    return peer, ours, torch.randn(2, 3, *grid)


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize(("grid", "modes"), GRIDS)
def test_equals_neuraloperator(grid, modes, backend):
    """From the same weights; its treatment of odd inner axes is layout='neuralop'."""
    peer, ours, x = _pair(grid, modes, backend=backend, layout="neuralop")
    assert _relative(ours(x), peer(x)) < 1e-6


@pytest.mark.parametrize("grid", [(16, 18), (15, 17)])
def test_exact_layout_commutes_with_translation(grid):
    """A convolution must; neuraloperator's does not on odd inner axes, which is why its layout is not the default."""
    peer, ours, x = _pair(grid, (8, 8), layout="exact")
    moved = x.roll((3, 5), dims=(2, 3))
    assert _relative(ours(moved), ours(x).roll((3, 5), dims=(2, 3))) < 1e-5
    error = _relative(peer(moved), peer(x).roll((3, 5), dims=(2, 3)))
    assert (error > 0.1) == bool(grid[0] % 2)


@pytest.mark.parametrize(("grid", "modes"), GRIDS)
def test_backends_agree(grid, modes):
    _, gemm, x = _pair(grid, modes, backend="gemm")
    _, fft, _ = _pair(grid, modes, backend="fft")
    assert _relative(gemm(x), fft(x)) < 1e-6


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize(("grid", "modes"), [((9,), (6,)), ((8,), (12,)), ((7, 8), (4, 6)), ((4, 3, 5), (2, 3, 4))])
def test_gradcheck_in_float64(grid, modes, backend):
    torch.manual_seed(0)
    conv = SpectralConv(2, 3, modes, backend=backend, precision=Policy.uniform("fp64")).double()
    x = torch.randn(2, 2, *grid, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: conv(x), (x, *conv.parameters()), fast_mode=True)
    fp64 = FORMATS["fp64"]
    assert torch.autograd.gradgradcheck(lambda x: conv.transform.forward(x, fp64), (x,), fast_mode=True)


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize(
    ("name", "tolerance"), [("bf16", 0.02), ("fp16", 0.0025), ("tf32", 0.0025), ("fp8_e4m3", 0.4), ("fp8_e5m2", 0.6)]
)
def test_half_formats_are_near_full(name, tolerance, backend):
    """A few unit roundoffs: the tolerance is about five of them."""
    _, conv, x = _pair((24, 20), (8, 8), backend=backend)
    full = conv(x)
    conv.set_precision(Policy.named("half", dtype=name, stabilizer="none"))
    y = conv(x)
    assert y.dtype is FORMATS[name].storage
    assert 0 < _relative(y.float(), full) < tolerance


@pytest.mark.parametrize("setting", ["FFF", "FFH", "FHF", "FHH", "HFF", "HFH", "HHF", "HHH"])
def test_block_settings_keep_each_stage_in_its_format(setting):
    _, conv, x = _pair((16, 16), (8, 8))
    conv.set_precision(Policy.block(setting, dtype="fp16"))
    stages = ("forward_transform", "contraction", "inverse_transform")
    dtypes = {"F": torch.float32, "H": torch.float16}
    formats = [conv.policy.format(stage) for stage in stages]
    contraction = conv._arithmetic("contraction", x.device)
    x_hat = conv.transform.forward(x, formats[0])
    y_hat = conv.weight.contract(x_hat, conv.transform.weight_slices((16, 16)), contraction, contraction)
    y = conv.transform.inverse(y_hat, (16, 16), (16, 16), formats[2])
    assert [t.dtype for t in (x_hat, y_hat, y)] == [dtypes[letter] for letter in setting]


@pytest.mark.parametrize("grid", [(96,), (127, 8), (100, 9), (37, 53, 41)])
@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_every_size_runs_in_half(grid, name):
    conv = SpectralConv(1, 1, (6,) * len(grid), precision=Policy.named("half", dtype=name), backend="gemm")
    x = torch.randn(1, 1, *grid, requires_grad=True)
    conv(x).float().square().mean().backward()
    assert x.grad.isfinite().all()


def test_gemm_cannot_overflow_and_fft_does_as_on_a_gpu():
    gemm = FourierTransform((8, 8), "gemm")
    fft = FourierTransform((8, 8), "fft")
    fp16 = FORMATS["fp16"]
    ones = torch.ones(1, 1, 256, 256)
    assert gemm.forward(ones * 6e4, fp16).isfinite().all()
    assert fft.forward(ones, fp16).isinf().any(), "65536 is past the largest fp16 number"
    assert fft.forward(torch.ones(1, 1, 128, 128).tanh(), fp16).isfinite().all()


def test_auto_stabilizer_and_repr():
    policy = Policy.named("half", dtype="fp16")
    assert SpectralConv(1, 1, (4, 4), backend="fft", precision=policy).stabilizer == "tanh"
    assert SpectralConv(1, 1, (4, 4), backend="auto", precision=policy).stabilizer == "none"
    assert f"forward_transform={arithmetic(FORMATS['fp16'], 'cpu')}" in repr(
        SpectralConv(1, 1, (4, 4), precision=policy)
    )


@pytest.mark.parametrize("target", [(24, 20), (40, 33), (9, 10)])
def test_output_on_another_grid_is_band_limited_interpolation(target):
    """Both grids sample the same trigonometric polynomial (up to frequencies that the coarse grid lacks)."""
    conv = SpectralConv(2, 2, (6, 6))
    x = torch.randn(1, 2, 24, 20)
    y = conv(x, output_shape=target)
    assert y.shape == (1, 2, *target)
    if target[0] >= 24:
        coefficients = torch.fft.rfft2(y, norm="forward")[..., :4, :4]
        expected = torch.fft.rfft2(conv(x), norm="forward")[..., :4, :4]
        torch.testing.assert_close(coefficients[..., :3, :3], expected[..., :3, :3], atol=1e-5, rtol=1e-4)


def test_saved_for_backward_is_the_truncated_spectrum_in_half():
    conv = SpectralConv(4, 4, (8, 8), precision=Policy.named("half", dtype="bf16"), backend="gemm")
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        conv(torch.randn(2, 4, 64, 64, dtype=torch.bfloat16, requires_grad=True))
    # The master weights are saved too, but they exist anyway.
    own = [t for t in saved if t.data_ptr() != conv.weight.weight.data_ptr()]
    assert [(t.dtype, t.numel()) for t in own] == [(torch.bfloat16, 8 * 5 * 2 * 2 * 4)]


def test_policies_on_the_meta_device():
    for name in ("full", "half"):
        conv = SpectralConv(3, 5, (8, 8), precision=name).to("meta")
        assert conv(torch.empty(2, 3, 40, 40, device="meta")).shape == (2, 5, 40, 40)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SpectralConv(1, 1, (4, 4), backend="dft"), "unknown backend 'dft': expected one of auto, gemm, fft"),
        (lambda: SpectralConv(1, 1, (4, 4), precision="quarter"), "unknown precision 'quarter'"),
        (lambda: SpectralConv(0, 1, (4, 4)), "in_channels must be a positive integer"),
        (lambda: SpectralConv(1, 1, (4, 4, 4, 4)), "one to three positive integers"),
        (lambda: SpectralConv(1, 1, (4, 0)), "one to three positive integers"),
        (lambda: SpectralConv(1, 1, (4, 4), layout="odd"), "unknown layout 'odd'"),
        (lambda: SpectralConv(2, 1, (4, 4))(torch.ones(1, 1, 8, 8)), r"expected input \(batch, 2, 2 grid axes\)"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
