"""Factorized spectral weights: against neuraloperator and tensorly from the same arguments and the same weights."""

import itertools

import pytest
import torch
from neuralop.layers.spectral_convolution import SpectralConv as PeerConv
from tensorly.cp_tensor import validate_cp_rank
from tensorly.tt_tensor import validate_tt_rank
from tensorly.tucker_tensor import validate_tucker_rank

from halfwave.measure.step import LiveBytes
from halfwave.numerics import FORMATS, arithmetic
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv, WeightSettings
from halfwave.spectral.ranks import cp_rank, tt_rank, tucker_rank

KINDS = ["cp", "tucker", "tt"]
GRIDS = [
    ((32,), (16,)),
    ((33,), (16,)),
    ((20,), (20,)),
    ((20,), (40,)),
    ((32, 48), (12, 20)),
    ((33, 47), (12, 21)),
    ((10, 11), (10, 11)),
    ((9, 11), (12, 20)),
    ((12, 16, 10), (6, 8, 4)),
    ((6, 5, 8), (6, 5, 8)),
    ((7, 5, 9), (6, 8, 10)),
]


def _pair(kind, modes, *, channels=(4, 4), rank=0.5, **options):
    """Their convolution and ours with the same weights."""
    torch.manual_seed(0)
    shared = {"factorization": kind, "rank": rank, **options}
    peer = PeerConv(*channels, modes, **{"implementation": "factorized", **shared})
    ours = SpectralConv(*channels, modes, layout="neuralop", **shared)
    ours.weight.load_complex_state(peer.weight.state_dict())
    ours.bias.data = peer.bias.detach().flatten()
    return peer, ours


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("implementation", ["factorized", "reconstructed"])
@pytest.mark.parametrize(("grid", "modes"), GRIDS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_neuraloperator(kind, grid, modes, implementation):
    peer, ours = _pair(kind, modes, channels=(3, 5), implementation=implementation)
    x = torch.randn(2, 3, *grid)
    assert _relative(ours(x), peer(x)) < 1e-5
    assert _relative(ours.weight.dense(), peer.weight.to_tensor()) < 1e-5


@pytest.mark.parametrize("implementation", ["factorized", "reconstructed"])
@pytest.mark.parametrize(("grid", "modes"), [((33,), (16,)), ((9, 11), (12, 20)), ((7, 5, 9), (6, 8, 10))])
@pytest.mark.parametrize("kind", [*KINDS, "dense"])
def test_separable_equals_neuraloperator(kind, grid, modes, implementation):
    peer, ours = _pair(kind, modes, separable=True, implementation=implementation)
    x = torch.randn(2, 4, *grid)
    assert _relative(ours(x), peer(x)) < 1e-5
    assert _relative(ours.weight.dense(), peer.weight.to_tensor()) < 1e-5


@pytest.mark.parametrize("contraction", ["memory", "flops"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_neuraloperators(kind, contraction):
    peer, _ = _pair(kind, (8, 6))
    ours = SpectralConv(4, 4, (8, 6), factorization=kind, rank=0.5, contraction=contraction)
    ours.weight.load_complex_state(peer.weight.state_dict())
    ours.bias.data = peer.bias.detach().flatten()
    x = torch.randn(3, 4, 16, 12)
    ours(x).square().mean().backward()
    peer(x).square().mean().backward()
    theirs = dict(peer.weight.named_parameters())
    for name, parameter in ours.weight.named_factors():
        gradient = theirs[name].grad
        pairs = torch.view_as_real(gradient) if gradient.is_complex() else gradient
        assert _relative(parameter.grad, pairs.movedim(-1, -2)) < 1e-5, name


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize("options", [{}, {"separable": True}, {"implementation": "reconstructed"}])
@pytest.mark.parametrize("kind", [*KINDS, "dense"])
def test_gradcheck_in_float64(kind, options, backend):
    _check_gradients(kind, (4, 3), (7, 6), backend, **options)


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize(("modes", "grid"), [((5,), (5,)), ((8,), (5,)), ((2, 3, 4), (4, 3, 5))])
@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck_in_one_and_three_dimensions(kind, modes, grid, backend):
    _check_gradients(kind, modes, grid, backend)


def _check_gradients(kind, modes, grid, backend, **options):
    torch.manual_seed(0)
    fp64 = Policy.uniform("fp64")
    conv = SpectralConv(2, 2, modes, factorization=kind, rank=0.6, precision=fp64, backend=backend, **options).double()
    x = torch.randn(2, 2, *grid, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: conv(x), (x, *conv.parameters()), fast_mode=True)


@pytest.mark.parametrize("mode", ["A", "B", "C"])
@pytest.mark.parametrize("kind", [*KINDS, "dense"])
def test_options_of_the_paper_give_the_same_layer(kind, mode):
    """Views of complex numbers as real ones differ in cost and rounding, not in what is computed."""
    _, conv = _pair(kind, (8, 6))
    other = SpectralConv(4, 4, (8, 6), factorization=kind, rank=0.5, layout="neuralop", complex_mode=mode)
    other.load_state_dict(conv.state_dict())
    x = torch.randn(2, 4, 12, 11)
    assert _relative(other(x), conv(x)) < 1e-5
    other.set_precision(Policy.named("half", dtype="fp16", stabilizer="none"))
    assert 1e-5 < _relative(other(x).float(), conv(x)) < 0.006


@pytest.mark.parametrize("name", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", [*KINDS, "dense"])
def test_memory_limit_of_a_layer_holds(kind, name):
    """Counted at dispatch: spectrum, weights, result, their gradients and every temporary of both passes."""
    torch.manual_seed(0)
    options = {"factorization": kind, "rank": 0.5}
    free = SpectralConv(8, 8, (8, 8), **options)
    x_hat = torch.randn(8, 5, 2, 3, 8)
    unlimited = _contraction_peak(free, x_hat, name)
    limit = _smallest_limit(options, x_hat, name)
    tight = SpectralConv(8, 8, (8, 8), memory_limit=limit, **options)
    tight.load_state_dict(free.state_dict())
    peak = _contraction_peak(tight, x_hat, name)
    assert peak <= limit
    # Dense weights need next to nothing beside themselves, whatever the plan.
    assert kind == "dense" or peak < unlimited
    x = torch.randn(3, 8, 12, 12)
    assert _relative(tight(x), free(x)) < 1e-5


def _smallest_limit(options, x_hat, name):
    """What the planner says that the finest slices need."""
    with pytest.raises(ValueError, match="the finest slices need") as error:
        _contract(SpectralConv(8, 8, (8, 8), memory_limit=1, **options), x_hat, name)
    return int(str(error.value).split()[-1])


def _contract(conv, x_hat, name):
    arith = arithmetic(FORMATS[name], "cpu")
    return conv.weight.contract(x_hat, (slice(None), slice(None)), arith, arith)


def _contraction_peak(conv, x_hat, name):
    x_hat = x_hat.clone().requires_grad_()
    conv.zero_grad()
    with LiveBytes() as live:
        live.hold([x_hat, *conv.weight.parameters()])
        y = _contract(conv, x_hat, name)
        y.backward(torch.ones_like(y))
    return live.peak()


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("bf16", 0.03), ("fp16", 0.004), ("tf32", 0.004), ("fp8_e5m2", 0.8), ("bf16x2", 6e-5), ("bf16x3", 2e-6)],
)
@pytest.mark.parametrize("implementation", ["factorized", "reconstructed"])
@pytest.mark.parametrize("kind", KINDS)
def test_half_formats_are_near_full(kind, implementation, name, tolerance):
    """The factorized contraction rounds at each of its few steps: some unit roundoffs more than the dense one."""
    _, conv = _pair(kind, (8, 8), channels=(8, 8), implementation=implementation)
    x = torch.randn(2, 8, 24, 20)
    full = conv(x)
    conv.set_precision(Policy.named("half", dtype=name, stabilizer="none"))
    y = conv(x)
    assert y.dtype is FORMATS[name].storage
    assert 0 < _relative(y.float(), full) < tolerance


@pytest.mark.parametrize("kind", [*KINDS, "dense"])
def test_weights_only_in_half(kind):
    _, conv = _pair(kind, (8, 8), separable=kind == "dense")
    x = torch.randn(2, 4, 24, 20)
    full = conv(x)
    conv.set_precision(Policy.named("full").with_(weights="fp16"))
    y = conv(x)
    assert y.dtype is torch.float32
    assert 1e-5 < _relative(y, full) < 0.004


@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_for_the_compiler(kind):
    """The plan is a constant of the graph; values and gradients are those of the eager layer."""
    torch.manual_seed(0)
    weight = WeightSettings(kind, 0.5).build((4, 3), 3, 3, 0.5)
    x_hat = torch.randn(4, 3, 2, 2, 3, requires_grad=True)
    arith = arithmetic(FORMATS["fp32"], "cpu")

    def contract(x_hat):
        return weight.contract(x_hat, (slice(None), slice(0, 3)), arith, arith)

    inputs = (x_hat, *weight.parameters())
    eager = contract(x_hat)
    compiled = torch.compile(contract, fullgraph=True, backend="aot_eager")(x_hat)
    torch.testing.assert_close(compiled, eager)
    found = torch.autograd.grad(compiled.square().sum(), inputs)
    for a, b in zip(found, torch.autograd.grad(eager.square().sum(), inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_meta_device(kind):
    for name in ("full", "half"):
        conv = SpectralConv(3, 5, (8, 8), factorization=kind, rank=0.5, precision=name).to("meta")
        assert conv(torch.empty(2, 3, 40, 40, device="meta")).shape == (2, 5, 40, 40)


SHAPES = [(64, 64, 64, 33), (3, 5, 9), (16, 16, 8, 8, 5), (32, 17), (8, 12, 7)]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [0.05, 0.1, 0.42, 0.5, 1.0, 1, 7])
def test_ranks_are_tensorlys(shape, rank):
    expected = validate_cp_rank(shape, rank)
    if expected:
        assert cp_rank(shape, rank) == expected
    assert list(tucker_rank(shape, rank)) == list(validate_tucker_rank(shape, rank))
    assert list(tt_rank(shape, rank)) == list(validate_tt_rank(shape, rank))


@pytest.mark.parametrize("kind", KINDS)
def test_initial_weights_have_the_law_of_tltorch(kind):
    """Every part normal, with the same standard deviation as theirs (each a sample of thousands)."""
    torch.manual_seed(0)
    peer = PeerConv(24, 24, (24, 24), factorization=kind, rank=0.5)
    ours = SpectralConv(24, 24, (24, 24), factorization=kind, rank=0.5)
    state, theirs = ours.weight.complex_state(), peer.weight.state_dict()
    assert state.keys() == theirs.keys()
    for name, value in theirs.items():
        mine = state[name]
        assert mine.shape == value.shape
        if name == "weights":
            assert torch.equal(mine, value)
        else:
            assert mine.real.std().item() == pytest.approx(value.real.std().item(), rel=0.2)
            assert mine.imag.std().item() == pytest.approx(mine.real.std().item(), rel=0.2)


def test_parameters_are_real_fp32_and_as_many_as_asked_for():
    dense = 2 * 16 * 16 * 12 * 7
    for kind, rank in itertools.product(KINDS, (0.1, 0.5)):
        conv = SpectralConv(16, 16, (12, 12), bias=False, factorization=kind, rank=rank)
        assert {p.dtype for p in conv.parameters()} == {torch.float32}
        assert sum(p.numel() for p in conv.parameters()) == pytest.approx(rank * dense, rel=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factorization": "svd"}, "unknown factorization 'svd': expected None or one of dense, cp, tucker, tt"),
        ({"factorization": "cp", "rank": 0.0}, r"rank 0.0 is out of range: expected a fraction in \(0, 1\]"),
        ({"factorization": "tucker", "rank": 1.5}, "rank 1.5 is out of range"),
        ({"factorization": "tt", "rank": -2}, "rank -2 does not fit tt: expected a fraction"),
        ({"factorization": "cp", "rank": (2, 2)}, r"rank \(2, 2\) does not fit cp"),
        ({"factorization": "tucker", "rank": (2, 2)}, r"rank \(2, 2\) does not fit tucker: .* or 4 of them"),
        ({"factorization": "tt", "rank": (2, 2, 2, 2, 1)}, "with 1 at both ends"),
        ({"factorization": "cp", "rank": 1e-9}, "it leaves no term at all"),
        ({"factorization": "cp", "rank": True}, "rank True does not fit cp"),
        ({"factorization": "cp", "implementation": "dense"}, "unknown implementation 'dense': .*reconstructed"),
        ({"factorization": "cp", "contraction": "time"}, "unknown objective 'time': expected one of memory, flops"),
        (
            {"factorization": "cp", "implementation": "reconstructed", "memory_limit": 10**6},
            "memory_limit needs implementation 'factorized'",
        ),
        ({"separable": True}, "separable weights need as many channels out as in, got 3 in, 5 out"),
    ],
)
def test_bad_arguments_raise(options, message):
    with pytest.raises(ValueError, match=message):
        SpectralConv(3, 5, (4, 4), **options)


def test_factors_of_another_shape_raise():
    weight = WeightSettings("cp", 2).build((4, 3), 2, 2, 0.5)
    other = WeightSettings("cp", 3).build((4, 3), 2, 2, 0.5)
    with pytest.raises(ValueError, match=r"weights of shape \(3,\) does not fit \(2, 2\)"):
        weight.load_complex_state(other.complex_state())
