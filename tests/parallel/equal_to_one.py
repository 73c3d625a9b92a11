"""Checks in several processes: outputs and gradients of pieces are the pieces of those of one process."""

import copy
import re

import pytest
import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import halfwave as hw
from halfwave.parallel import GridLayout, shard_of, split_sizes

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def mesh(shape=None):
    return init_device_mesh("cpu", shape or (dist.get_world_size(),))


def named_mesh(shape):
    return init_device_mesh("cpu", shape, mesh_dim_names=tuple("abc"[: len(shape)]))


def relative(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm().clamp(min=1e-30))


def compare(build, grid, axes=(0,), shape=None, dtype=torch.float64, batch=2, prepare=None, tolerance=None):
    """A model in pieces against the same one in this process alone: answer, gradients of input and parameters."""
    torch.manual_seed(1)
    model = build().to(dtype)
    if prepare:
        prepare(model)
    x = torch.randn(batch, model.in_channels, *grid, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        weights = torch.randn_like(model(x))
    expected = model(x)
    (expected * weights).sum().backward()
    used = mesh(shape) if shape is None or model.n_dim == 2 else named_mesh(shape)
    parallel = hw.parallelize(model, used, axes)
    piece = GridLayout.of(used, axes).piece_of(grid)
    own = piece.cut(x.detach()).clone().requires_grad_()
    found = parallel(own)
    (found * piece.cut(weights)).sum().backward()
    most = tolerance or TOLERANCE[dtype]
    assert found.shape == piece.cut(expected).shape
    assert relative(found, piece.cut(expected)) < most
    assert relative(own.grad, piece.cut(x.grad)) < most
    assert_same_gradients(parallel, model, most)


def fno(n_modes, channels=6, layers=2, **options):
    return lambda: hw.FNO(n_modes, 2, 3, channels, n_layers=layers, **options)


def one_axis():
    for dtype in TOLERANCE:
        compare(fno(8), (19,), dtype=dtype)
        compare(fno(5), (16,), dtype=dtype)


def two_axes():
    for dtype in TOLERANCE:
        compare(fno((6, 5)), (9, 10), dtype=dtype)
    compare(fno((6, 5)), (9, 10), axes=(1,))
    compare(fno((4, 4)), (12, 8), axes=(-0,), batch=1)


def three_axes():
    for dtype in TOLERANCE:
        compare(fno((4, 5, 4)), (7, 6, 9), dtype=dtype)
    compare(fno((4, 5, 4)), (7, 6, 9), axes=(2,))


def several_sharded_axes():
    compare(fno((6, 5)), (9, 10), axes=(0, 1), shape=(2, 2))
    compare(fno((4, 4, 4)), (6, 7, 5), axes=(2, 0), shape=(2, 2))


def modes_and_grids():
    """Modes that the grid does not have, weights that are not used, and neuraloperator's layout on odd grids."""
    compare(fno((8, 8)), (5, 6))
    compare(fno((4, 4), max_n_modes=(9, 8)), (11, 8))
    compare(fno((5, 4), layout="neuralop"), (9, 7))
    compare(fno((5, 4), positional_embedding="sinusoidal"), (9, 7))
    compare(fno((5, 4), positional_embedding=None), (9, 7))


def norms():
    for norm in ("group_norm", "instance_norm"):
        compare(fno((4, 4), norm=norm), (9, 7))
        compare(fno((4, 4), norm=norm, preactivation=True), (9, 7), dtype=torch.float32)
    embedding = torch.randn(3).double()
    compare(
        fno((4, 4), norm="ada_in", ada_in_features=3),
        (9, 7),
        prepare=lambda model: model.set_ada_in_embeddings(embedding),
    )


def padding():
    compare(fno((4, 4), domain_padding=0.25), (9, 7))
    compare(fno((4, 4), domain_padding=(0.3, 0.0), domain_padding_mode="one-sided"), (9, 7))
    compare(fno((4, 4), domain_padding=0.2), (9, 8), axes=(1,))


def factorized():
    for kind in ("tucker", "cp", "tt"):
        compare(lambda kind=kind: hw.TFNO((6, 5), 2, 3, 6, n_layers=2, factorization=kind, rank=0.4), (9, 10))
    compare(lambda: hw.TFNO((6, 5), 2, 3, 6, n_layers=2, rank=0.4), (9, 10), dtype=torch.float32)
    compare(lambda: hw.TFNO((6, 5), 2, 3, 6, n_layers=1, rank=0.4, implementation="reconstructed"), (9, 10))
    compare(fno((6, 5), separable=True), (9, 10))


def sphere():
    for dtype in TOLERANCE:
        compare(lambda: hw.SFNO((6, 8), 2, 3, 6, n_layers=2), (9, 16), dtype=dtype)
    compare(lambda: hw.SFNO((7, 6), 2, 3, 6, n_layers=2, sht_grids="legendre-gauss"), (10, 12))
    compare(lambda: hw.SFNO((6, 60), 2, 3, 6, n_layers=1), (70, 130), batch=1)  # longitudes by an FFT


GINO = {
    "fno_n_modes": (4, 4, 3), "fno_hidden_channels": 6, "fno_n_layers": 2, "gno_embed_channels": 4,
    "in_gno_radius": 0.4, "out_gno_radius": 0.45, "latent_feature_channels": 1,
    "in_gno_channel_mlp_hidden_layers": (8,), "out_gno_channel_mlp_hidden_layers": (8,),
}  # fmt: skip


def nodes(grid, dtype):
    return torch.stack(torch.meshgrid(*(torch.linspace(0, 1, n, dtype=dtype) for n in grid), indexing="ij"), dim=-1)


def compare_gino(inputs, axes=(0,), shape=None, grid=(5, 4, 3), dtype=torch.float64, tolerance=None, **options):
    """A GINO whose latent grid is in pieces: the answers of the own output points, gradients of all parameters."""
    torch.manual_seed(1)
    model = hw.GINO(2, 3, **GINO, **options).to(dtype)
    given = {name: t.to(dtype) if t.is_floating_point() else t for name, t in inputs.items()}
    latent = {"latent_queries": nodes(grid, dtype)[None], "latent_features": torch.randn(1, *grid, 1, dtype=dtype)}
    expected = model(**given, **latent)
    weights = torch.randn_like(expected)
    (expected * weights).sum().backward()
    used = named_mesh(shape) if shape else mesh()
    layout = GridLayout.of(used, axes)
    parallel = hw.parallelize(model, used, axes)
    piece = layout.piece_of(grid)
    own = {name: piece.cut(t.movedim(-1, 1)).movedim(1, -1).clone() for name, t in latent.items()}
    found = parallel(**given, **own)

    def share(t):
        return t.tensor_split(layout.ranks.size, dim=-2)[layout.ranks.rank]

    (found * share(weights)).sum().backward()
    most = tolerance or TOLERANCE[dtype]
    assert found.shape == share(expected).shape
    assert relative(found, share(expected)) < most
    assert_same_gradients(parallel, model, most)


def assert_same_gradients(parallel, model, most):
    for (name, p), (_, q) in zip(parallel.named_parameters(), model.named_parameters(), strict=True):
        shard = shard_of(p)
        gradient = q.grad if shard is None else shard.own(q.grad)
        if gradient.numel():
            assert p.grad is not None, name
            assert relative(p.grad, gradient) < 10 * most or float((p.grad - gradient).abs().max()) < most, name


def geometry(n=21, m=13, functions=2):
    return {
        "input_geom": torch.rand(1, n, 3), "output_queries": torch.rand(1, m, 3), "x": torch.randn(functions, n, 2)
    }  # fmt: skip


def latent_grid():
    """Sums, means and weighted means; one geometry with two functions, two packed ones; points near one piece only."""
    for dtype in TOLERANCE:
        compare_gino(geometry(), fno_in_channels=2, dtype=dtype)
    weighting = {"gno_weighting_function": "half_cos", "out_gno_reduction": "mean"}
    compare_gino(geometry(), fno_in_channels=2, axes=(1,), **weighting)
    packed = {
        "input_geom": torch.rand(20, 3), "output_queries": torch.rand(17, 3), "x": torch.randn(20, 2),
        "input_offsets": torch.tensor([0, 12, 20]), "output_offsets": torch.tensor([0, 5, 17]),
    }  # fmt: skip
    compare_gino(packed, fno_in_channels=2, out_gno_reduction="mean", out_gno_tanh="both", dtype=torch.float32)
    corner = {**geometry(), "output_queries": 0.1 * torch.rand(1, 5, 3), "input_geom": 0.1 * torch.rand(1, 21, 3)}
    compare_gino(corner, fno_in_channels=2)
    half = hw.Policy.named("mixed", dtype="bf16")
    compare_gino(geometry(), fno_in_channels=2, precision=half, dtype=torch.float32, tolerance=8 * 2**-8)


def latent_grid_along_two_axes():
    compare_gino(geometry(), axes=(0, 2), shape=(2, 2), grid=(5, 4, 4), fno_in_channels=2, out_gno_reduction="mean")
    refused = hw.parallelize(hw.GINO(2, 3, **GINO, fno_in_channels=2), mesh())
    latent = {"latent_queries": nodes((2, 4, 4), torch.float32)[None], "latent_features": torch.ones(1, 2, 4, 4, 1)}
    with pytest.raises(ValueError, match="3 output points are too few for 4 processes"):
        refused(**geometry(m=3), **latent)


def half_precision():
    """Modes travel in the policy's format: within a few of its roundings of one process."""
    for dtype, roundoff in (("bf16", 2**-8), ("fp16", 2**-11)):
        compare(
            fno((6, 5), precision=hw.Policy.named("mixed", dtype=dtype)),
            (18, 16),
            dtype=torch.float32,
            tolerance=8 * roundoff,
        )


def state_dicts():
    """Those of one process, both ways, and the given model is as before."""
    for build in (fno((6, 5), norm="group_norm"), lambda: hw.TFNO((6, 5), 2, 3, 6, n_layers=1)):
        torch.manual_seed(1)
        model = build()
        before = copy.deepcopy(model.state_dict())
        parallel = hw.parallelize(model, mesh())
        found = parallel.state_dict()
        assert list(found) == list(before)
        assert all(torch.equal(found[name], before[name]) for name in before)
        other = {name: torch.randn_like(t) for name, t in before.items()}
        parallel.load_state_dict(other)
        again = parallel.state_dict()
        assert all(torch.equal(again[name], other[name]) for name in other)
        assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def shards_are_shares():
    """Dense weights are cut along their first mode axis, and nothing else is."""
    model = fno((7, 6))()
    parallel = hw.parallelize(model, mesh())
    rank, size = dist.get_rank(), dist.get_world_size()
    for (name, p), (_, q) in zip(parallel.named_parameters(), model.named_parameters(), strict=True):
        rows = split_sizes(7, size)[rank] if name.endswith("conv.weight.weight") else len(q)
        assert p.shape == (rows, *q.shape[1:]), name


def second_derivatives():
    """A gradient of a gradient passes every exchange too."""
    torch.manual_seed(1)
    model = fno((4, 4), layers=1)().double()
    x = torch.randn(1, 2, 8, 6, dtype=torch.float64)

    def penalty(own_model, field, total):
        field = field.clone().requires_grad_()
        (slope,) = torch.autograd.grad(total(own_model(field).pow(2).sum()), field, create_graph=True)
        return slope.pow(2).sum(), slope

    expected, _ = penalty(model, x, lambda value: value)
    expected.backward()
    parallel = hw.parallelize(model, mesh())
    piece = GridLayout.of(mesh(), (0,)).piece_of((8, 6))
    found, _ = penalty(parallel, piece.cut(x), lambda value: value)
    found.backward()
    total = found.detach().clone()
    dist.all_reduce(total)
    assert relative(total, expected.detach()) < 1e-12
    for (name, p), (_, q) in zip(parallel.named_parameters(), model.named_parameters(), strict=True):
        shard = shard_of(p)
        gradient = q.grad if shard is None else shard.own(q.grad)
        assert gradient is None or float((p.grad - gradient).norm()) < 1e-10 * float(q.grad.norm() + 1), name


def what_cannot_be_says_so():
    def refused(what, text):
        with pytest.raises(ValueError, match=re.escape(text)):
            what()

    used = mesh()
    refused(lambda: hw.parallelize(hw.UNet(1, 1, 4, 1), used), "expected FNO, TFNO, SFNO or GINO")
    refused(lambda: hw.parallelize(fno((4, 4), backend="fft")(), used), "backend='fft'")
    refused(lambda: hw.parallelize(fno((4, 4))(), used, axes=(0, 1)), "one axis for each dimension")
    refused(lambda: hw.parallelize(fno((4, 4))(), used, axes=(2,)), "expected axes below")
    refused(lambda: hw.parallelize(hw.SFNO((4, 4), 1, 1, 4), used, axes=(1,)), "along its latitudes")
    refused(lambda: hw.parallelize(fno((4, 4), resolution_scaling_factor=2.0)(), used), "resolution_scaling_factor")
    refused(lambda: hw.parallelize(fno((4, 4), channel_mlp_dropout=0.1)(), used), "channel_mlp_dropout")
    parallel = hw.parallelize(fno((4, 4))(), used)
    refused(lambda: hw.parallelize(parallel, used), "already")
    refused(lambda: parallel(torch.randn(1, 2, 4, 4), (8, 8)), "cannot be asked for on another grid")
    named = hw.Policy.named("mixed", stabilizer="normalise")
    refused(lambda: hw.parallelize(fno((4, 4), precision=named)(), used)(torch.randn(1, 2, 4, 4)), "needs whole fields")
