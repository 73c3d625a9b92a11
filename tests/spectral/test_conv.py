"""The spectral convolution against neuraloperator, against float64, and in every format."""

import pytest
import torch
from neuralop.layers.spectral_convolution import SpectralConv as PeerConv

from halfwave.numerics import FORMATS, arithmetic, arithmetic_of
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv

pytestmark = pytest.mark.hardware

GRIDS = [
    ((32,), (16,)),
    ((33,), (16,)),
    ((20,), (20,)),
    ((21,), (21,)),
    ((20,), (40,)),
    ((32, 48), (12, 20)),
    ((33, 47), (12, 21)),
    ((16, 16), (16, 16)),
    ((9, 11), (12, 20)),
    ((12, 16, 10), (6, 8, 4)),
    ((6, 5, 8), (6, 5, 8)),
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
    fp64 = arithmetic_of("fp64", "cpu")
    assert torch.autograd.gradgradcheck(lambda x: conv.transform.forward(x, fp64), (x,), fast_mode=True)


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("bf16", 0.02),
        ("fp16", 0.0025),
        ("tf32", 0.0025),
        ("fp8_e4m3", 0.4),
        ("fp8_e5m2", 0.6),
        ("bf16x2", 4e-5),
        ("bf16x3", 1e-6),
    ],
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
    dtypes = {"F": torch.float32, "H": torch.float16}
    roles = conv.resolved(x.device)
    x_hat = conv.transform.forward(x, roles.forward_transform)
    y_hat = conv.weight.contract(x_hat, conv.transform.weight_slices((16, 16)), roles.contraction, roles.contraction)
    y = conv.transform.inverse(y_hat, (16, 16), (16, 16), roles.inverse_transform)
    assert [t.dtype for t in (x_hat, y_hat, y)] == [dtypes[letter] for letter in setting]


SIZES = (96, 100, 127, 128, 129, 1000)
HALF_GRIDS = [(n,) for n in SIZES] + [(n, n) for n in SIZES[:-1]] + [(1000, 96), (37, 53, 41)]


@pytest.mark.parametrize("name", ["fp16", "bf16"])
@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize("grid", HALF_GRIDS, ids=str)
def test_every_size_runs_in_half(grid, backend, name):
    """Forward and backward, near full precision: the grid need not be a power of two, as cuFFT's half would have it."""
    torch.manual_seed(0)
    conv = SpectralConv(2, 2, (6,) * len(grid), backend=backend)
    x = torch.randn(1, 2, *grid)
    full, full_grad = _value_and_gradient(conv, x)
    # A white field's coefficients are small against N: half its unnormalised FFT still fits.
    conv.set_precision(Policy.named("half", dtype=name, stabilizer="none"))
    half, half_grad = _value_and_gradient(conv, x)
    tolerance = 6 * FORMATS[name].unit_roundoff
    assert _relative(half.float(), full) < tolerance
    assert _relative(half_grad, full_grad) < 2 * tolerance


def _value_and_gradient(conv, x):
    x = x.clone().requires_grad_()
    y = conv(x)
    # Gradients of a spectrum are sums over the grid: this scale keeps them in the middle of fp16's range.
    (y.float().square().sum() / x.numel() ** 0.5).backward()
    return y.detach(), x.grad


def test_gemm_stays_finite_and_right_at_the_end_of_fp16():
    """|v| up to 6e4 at 1024x1024: means are bounded by max|v|, where an unnormalised sum would reach 6e10."""
    torch.manual_seed(0)
    x = torch.rand(1, 1, 1024, 1024) * 1.2e5 - 6e4
    x[..., :3] = 6e4
    conv = SpectralConv(1, 1, (8, 8), backend="gemm", bias=False)
    conv.weight.weight.data.mul_(0.1)
    policy = Policy.named("half", dtype="fp16", stabilizer="none")
    with torch.no_grad():
        exact = conv(x)
        conv.set_precision(policy)
        y = conv(x)
        assert y.isfinite().all()
        assert _relative(y.float(), exact) < 6 * FORMATS["fp16"].unit_roundoff
        constant = conv.transform.forward(torch.full((1, 1, 1024, 1024), 6e4), arithmetic_of("fp16", "cpu"))
    assert constant.isfinite().all()
    assert constant[4, 0, 0, 0, 0].item() == pytest.approx(6e4, rel=1e-3), "the mean of a constant is the constant"


@pytest.mark.parametrize(
    ("side", "stabilizer", "finite"), [(256, "none", False), (256, "tanh", True), (128, "tanh", True)]
)
def test_fft_in_fp16_overflows_on_ones_as_on_a_gpu(side, stabilizer, finite):
    """256 x 256 ones sum to 65536, past the largest fp16 number, 65504; tanh(1) = 0.76 of them does not."""
    conv = SpectralConv(
        1, 1, (8, 8), backend="fft", precision=Policy.named("half", dtype="fp16", stabilizer=stabilizer)
    )
    y = conv(torch.ones(1, 1, side, side))
    assert bool(y.isfinite().all()) == finite


def test_auto_stabilizer_keeps_a_half_fft_finite():
    conv = SpectralConv(1, 1, (8, 8), backend="fft", precision=Policy.named("half", dtype="fp16"))
    assert conv.stabilizer == "tanh"
    assert conv(torch.full((1, 1, 128, 128), 100.0)).isfinite().all()


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
        (lambda: SpectralConv(1, 1, (4, 4), complex_mode="D"), "unknown complex_mode 'D': expected one of A, B, C"),
        (lambda: SpectralConv(1, 1, (4, 4), memory_limit=0), "memory_limit must be a positive number of bytes or None"),
        (
            lambda: SpectralConv(1, 1, (4, 4), memory_limit=10)(torch.ones(1, 1, 8, 8)),
            r"memory_limit of 10 bytes cannot be held: the finest slices need \d+",
        ),
        (lambda: SpectralConv(2, 1, (4, 4))(torch.ones(1, 1, 8, 8)), r"expected input \(batch, 2, 2 grid axes\)"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
