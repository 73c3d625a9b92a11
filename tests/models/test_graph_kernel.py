"""The graph kernel against plain sums in float64 and against neuraloperator's integral transform."""

import pytest
import torch
from neuralop.layers.gno_block import GNOBlock
from neuralop.layers.gno_weighting_functions import dispatch_weighting_fn

from halfwave.measure.step import LiveBytes
from halfwave.models.edge_sums import EdgeWork, sum_messages
from halfwave.models.graph import build_graph
from halfwave.models.graph_kernel import TRANSFORM_TYPES, GraphKernel
from halfwave.models.mollifiers import MOLLIFIERS
from halfwave.models.sinusoidal import CoordinateEmbedding
from halfwave.numerics import arithmetic_of
from halfwave.precision import Policy

RADIUS = 0.3


def _embedding(dim=3, kind="transformer", channels=4):
    return CoordinateEmbedding(dim, kind, channels, 10000)


def _kernel(in_channels=5, out_channels=5, hidden=(16, 12), **options):
    torch.manual_seed(0)
    return GraphKernel(in_channels, out_channels, _embedding(), hidden, radius=RADIUS, **options)


def _points(n_data=40, n_queries=30, dim=3):
    torch.manual_seed(1)
    return torch.rand(n_data, dim), torch.rand(n_queries, dim)


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _peer(kernel, kind="transformer", **options):
    """neuraloperator's block with the same weights."""
    peer = GNOBlock(
        in_channels=kernel.in_channels,
        out_channels=kernel.out_channels,
        coord_dim=3,
        radius=RADIUS,
        transform_type=kernel.transform_type,
        pos_embedding_type=kind,
        pos_embedding_channels=4,
        channel_mlp_layers=[len(fc.weight) for fc in kernel.fcs[:-1]],
        use_torch_scatter_reduce=False,
        use_open3d_neighbor_search=False,
        **options,
    )
    peer.integral_transform.channel_mlp.fcs.load_state_dict(kernel.fcs.state_dict())
    return peer


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("transform_type", TRANSFORM_TYPES)
def test_equals_neuraloperator(transform_type, reduction):
    """Outputs and gradients, for two functions on the same points."""
    kernel = _kernel(transform_type=transform_type, reduction=reduction)
    peer = _peer(kernel, reduction=reduction)
    data, queries = _points()
    f = torch.randn(2, 40, 5, requires_grad=True)
    graph = build_graph(data, queries, RADIUS)
    assert len(graph.targets) < 30  # some have no neighbours
    ours = kernel(graph, data, queries, f.transpose(0, 1)).transpose(0, 1)
    theirs = peer(y=data, x=queries, f_y=f)
    assert _relative(ours, theirs) < 1e-6
    found = torch.autograd.grad(ours.square().sum(), [f, *kernel.parameters()])
    expected = torch.autograd.grad(theirs.square().sum(), [f, *peer.parameters()])
    assert max(_relative(a, b) for a, b in zip(found, expected, strict=True)) < 1e-5


@pytest.mark.parametrize("kind", ["transformer", "nerf", None])
def test_embeddings_and_a_kernel_alone_equal_neuraloperator(kind):
    torch.manual_seed(0)
    kernel = GraphKernel(3, 2, _embedding(kind=kind), (8,))
    data, queries = _points()
    ours = kernel(build_graph(data, queries, RADIUS), data, queries)
    assert _relative(ours.squeeze(1), _peer(kernel, kind)(y=data, x=queries)) < 1e-6


@pytest.mark.parametrize("weighting", MOLLIFIERS)
def test_mollified_kernels_equal_neuraloperator(weighting):
    kernel = _kernel(weighting=weighting, weighting_scale=2.5)
    peer = _peer(kernel, weighting_fn=dispatch_weighting_fn(weighting, sq_radius=RADIUS**2, scale=2.5))
    data, queries = _points()
    f = torch.randn(40, 1, 5)
    ours = kernel(build_graph(data, queries, RADIUS), data, queries, f)
    assert _relative(ours.transpose(0, 1), peer(y=data, x=queries, f_y=f.transpose(0, 1))) < 1e-5


def test_a_weighted_mean_of_a_constant_is_the_constant():
    kernel = _kernel(weighting="quartic", reduction="mean")
    last = kernel.fcs[-1]
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.ones_(last.bias)
    data, queries = _points()
    graph = build_graph(data, queries, RADIUS)
    out = kernel(graph, data, queries, torch.full((40, 1, 5), 3.0))
    torch.testing.assert_close(out[graph.targets], torch.full_like(out[graph.targets], 3.0))


@pytest.mark.parametrize("transform_type", TRANSFORM_TYPES)
def test_gradcheck(transform_type):
    """Parameters, features and coordinates, with slices that cut neighbourhoods."""
    kernel = _kernel(2, 2, (4, 3), transform_type=transform_type, weighting="half_cos").double()
    kernel.set_precision(Policy.uniform("fp64"))
    kernel.edges_per_slice = lambda *_: 7
    data, queries = (p.double().requires_grad_() for p in _points(12, 9))
    graph = build_graph(data, queries, 0.45)
    assert graph.n_edges > 20
    f = torch.randn(12, 2, 2, dtype=torch.float64, requires_grad=True)
    inputs = (data, queries, f, *kernel.parameters())
    assert torch.autograd.gradcheck(lambda x, q, f, *_: kernel(graph, x, q, f), inputs, fast_mode=True)


@pytest.mark.parametrize("limit", [1, 20_000, None])
def test_slices_change_nothing(limit):
    data, queries = _points()
    f = torch.randn(40, 1, 5)
    graph = build_graph(data, queries, RADIUS)
    results = []
    for kernel in (_kernel(memory_limit=1 << 30), _kernel(memory_limit=limit)):
        out = kernel(graph, data, queries, f)
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad for p in kernel.parameters())])
    for whole, sliced in zip(*results, strict=True):
        torch.testing.assert_close(sliced, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("limit", [2 << 20, 3 << 20])
def test_messages_stay_under_the_memory_limit(limit):
    """What the sum over edges adds to its inputs, results and gradients, forward and backward."""
    torch.manual_seed(0)
    kernel = GraphKernel(32, 32, _embedding(channels=16), (256, 128), memory_limit=limit)
    data, queries = _points(2000, 1500)
    graph = build_graph(data, queries, 0.13)
    terms = torch.randn(len(graph.sources), 1, 256, requires_grad=True)
    f = torch.randn(len(graph.sources), 1, 32, requires_grad=True)
    weights = [w.detach().requires_grad_() for w in kernel._weights()]
    points = queries[graph.targets]
    step = kernel.edges_per_slice(points.device)
    work = EdgeWork(graph, arithmetic_of("fp32", "cpu"), kernel.embedding, step)
    with LiveBytes() as live:
        held = live.hold([terms, f, points, *weights, graph.source, graph.target])
        out = sum_messages(work, terms, points, f, None, weights[1], *weights[3:])
        grads = torch.autograd.grad(out, [terms, f, *weights[3:]], torch.ones_like(out))
        held |= live.hold([out, *grads])
    in_one_piece = 4 * graph.n_edges * (256 + 128 + 32)
    assert in_one_piece > 8 * limit
    assert limit / 8 < live.peak(without=held) - _rounding_slack(weights, out) < limit


def _rounding_slack(weights, out):
    """The gradient of `out` (given) and the sums of the weights' gradients, which are not messages."""
    return out.nbytes + 2 * sum(w.nbytes for w in weights)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "tf32", "fp8_e4m3", "bf16x2"])
def test_half_formats_round_and_sum_in_fp32(dtype):
    kernel = _kernel()
    data, queries = _points(400, 10)
    f = torch.rand(400, 1, 5)
    graph = build_graph(data, queries, 2.0)  # every point is a neighbour of every query
    exact = kernel(graph, data, queries, f)
    kernel.set_precision(Policy.named("amp", dtype=dtype))
    out = kernel(graph, data, queries, f)
    storage = kernel.arithmetic(out.device).storage
    assert out.dtype is storage
    bound = {"bf16": 0.02, "fp16": 0.002, "tf32": 0.002, "fp8_e4m3": 0.1, "bf16x2": 4e-5}[dtype]
    assert 1e-7 < _relative(out.float(), exact) < bound


def test_no_neighbours_give_zero_and_zero_gradients():
    kernel = _kernel()
    data, queries = _points(3, 4)
    f = torch.randn(3, 1, 5, requires_grad=True)
    out = kernel(build_graph(data, queries + 10, RADIUS), data, queries + 10, f)
    assert torch.equal(out, torch.zeros(4, 1, 5))
    out.sum().backward()
    assert not f.grad.any()
    assert not any(p.grad.any() for p in kernel.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _kernel(transform_type="quadratic"), "unknown transform_type 'quadratic'"),
        (lambda: _kernel(reduction="max"), "unknown reduction 'max'"),
        (lambda: _kernel(weighting="gauss"), "unknown gno_weighting_function 'gauss'"),
        (lambda: _kernel(memory_limit=0), "memory_limit must be a positive"),
        (lambda: _embedding(kind="rotary"), "unknown position embedding 'rotary'"),
        (lambda: _apply(_kernel(transform_type="nonlinear"), None), "'nonlinear' needs features"),
        (lambda: _apply(_kernel(), torch.ones(40, 1, 2)), r"expected features \(points, batch, 5\)"),
        (lambda: _apply(_kernel(2), torch.ones(40, 1, 2)), "multiplies 2 channels of features by 5"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def _apply(kernel, f):
    data, queries = _points()
    return kernel(build_graph(data, queries, RADIUS), data, queries, f)
