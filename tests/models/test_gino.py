"""GINO: batches of different geometries, its policies, odd inputs, discretization, memory."""

import itertools

import pytest
import torch

import halfwave as hw
from halfwave.measure.step import LiveBytes
from halfwave.models import GINO, build_model, pack_points, set_precision, unpack_points
from halfwave.precision import Policy

SMALL = {
    "in_channels": 3,
    "out_channels": 2,
    "latent_feature_channels": 1,
    "in_gno_radius": 0.3,
    "out_gno_radius": 0.3,
    "fno_n_modes": (4, 4, 4),
    "fno_hidden_channels": 8,
    "fno_n_layers": 2,
    "gno_embed_channels": 4,
    "in_gno_channel_mlp_hidden_layers": (8, 8),
    "out_gno_channel_mlp_hidden_layers": (16, 8),
}


def _model(**options):
    torch.manual_seed(0)
    return GINO(**{**SMALL, **options})


def _grid(*sizes):
    return torch.stack(torch.meshgrid(*(torch.linspace(0, 1, n) for n in sizes), indexing="ij"), dim=-1)


def _surface(n, seed):
    """Points of an ellipsoid of its own, which leaves the unit box for some seeds."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(n, 3, generator=generator)
    return 0.5 + direction / direction.norm(dim=1, keepdim=True) * (0.2 + 0.4 * torch.rand(3, generator=generator))


def _batch():
    """Four geometries: input points, output points, input functions, latent features."""
    inputs = [_surface(n, seed) for seed, n in enumerate((40, 1, 70, 25))]
    outputs = [_surface(n, seed) for seed, n in enumerate((30, 9, 1, 50))]
    torch.manual_seed(1)
    return inputs, outputs, [torch.randn(len(p), 3) for p in inputs], torch.randn(4, 6, 5, 6, 1)


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _gradients(model):
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return found


@pytest.mark.parametrize("options", [{}, {"in_gno_transform_type": "nonlinear", "out_gno_transform_type": "nonlinear"}])
def test_a_batch_of_four_geometries_equals_four_batches_of_one(options):
    """Outputs, and gradients of parameters, of input functions and of points."""
    model = _model(**options)
    inputs, outputs, functions, features = _batch()
    grid = _grid(6, 5, 6)
    (points, input_offsets), (queries, output_offsets) = pack_points(inputs), pack_points(outputs)
    x = torch.cat(functions).requires_grad_()
    points.requires_grad_()
    together = model(points, grid, queries, x, features, input_offsets=input_offsets, output_offsets=output_offsets)
    together.square().sum().backward()
    found = _gradients(model)
    alone = []
    for b in range(4):
        p, f = inputs[b][None].requires_grad_(), functions[b][None].requires_grad_()
        alone.append(model(p, grid[None], outputs[b][None], f, features[b : b + 1])[0])
        alone[-1].square().sum().backward()
        torch.testing.assert_close(unpack_points(x.grad, input_offsets)[b], f.grad[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(unpack_points(points.grad, input_offsets)[b], p.grad[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-6)
    for batched, single in zip(found, _gradients(model), strict=True):
        assert _relative(batched, single) < 1e-4


def test_every_geometry_may_have_its_own_latent_grid():
    model = _model()
    inputs, outputs, functions, features = _batch()
    grids = _grid(6, 5, 6) + 0.1 * torch.arange(4.0).view(4, 1, 1, 1, 1)
    (points, input_offsets), (queries, output_offsets) = pack_points(inputs), pack_points(outputs)
    together = model(
        points, grids, queries, torch.cat(functions), features,
        input_offsets=input_offsets, output_offsets=output_offsets,
    )  # fmt: skip
    last = model(inputs[3][None], grids[3:], outputs[3][None], functions[3][None], features[3:])[0]
    torch.testing.assert_close(unpack_points(together, output_offsets)[3], last, rtol=1e-5, atol=1e-6)


def test_functions_on_one_geometry_and_several_output_sets():
    model = _model()
    grid, points = _grid(6, 6, 6)[None], _surface(50, 0)[None]
    x, features = torch.randn(3, 50, 3), torch.randn(1, 6, 6, 6, 1)
    sets = {"surface": points, "wake": torch.rand(1, 20, 3)}
    out = model(points, grid, sets, x, features)
    assert {key: tuple(v.shape) for key, v in out.items()} == {"surface": (3, 50, 2), "wake": (3, 20, 2)}
    single = model(points, grid, sets["wake"], x[1:2], features)
    torch.testing.assert_close(out["wake"][1:2], single, rtol=1e-5, atol=1e-6)


def test_geometry_alone_is_input_enough():
    """Without x the kernel itself is integrated; a batch of features shares the geometry."""
    model = _model()
    out = model(_surface(50, 0)[None], _grid(6, 6, 6)[None], torch.rand(1, 7, 3), None, torch.randn(2, 6, 6, 6, 1))
    assert out.shape == (2, 7, 2)
    assert not torch.equal(out[0], out[1])


def test_set_precision_changes_every_layer_and_back():
    model = _model()
    call = (_surface(40, 0)[None], _grid(8, 8, 8)[None], _surface(30, 1)[None], None, torch.randn(1, 8, 8, 8, 1))
    full = model(*call)
    hw.set_precision(model, Policy.named("mixed", dtype="bf16"))
    assert all(m.policy.name == "mixed" for m in model.modules() if hasattr(m, "policy"))
    assert 1e-5 < _relative(model(*call), full) < 0.05
    hw.set_precision(model, "full")
    assert torch.equal(model(*call), full)


def test_gradients_are_those_of_float64():
    model = _model(gno_weighting_function="quartic")
    call = (_surface(40, 0)[None], _grid(6, 6, 6)[None], _surface(30, 1)[None], torch.randn(2, 40, 3))
    features = torch.randn(2, 6, 6, 6, 1)
    model(*call, features).square().mean().backward()
    found = _gradients(model)
    model.double()
    set_precision(model, Policy.uniform("fp64"))
    model(*(t.double() for t in (*call, features))).square().mean().backward()
    for gradient, p in zip(found, model.parameters(), strict=True):
        assert _relative(gradient.double(), p.grad) < 1e-4


def test_points_outside_the_box_and_without_neighbours():
    """Far away the answer is the projection of 0, the same everywhere; training on it is harmless."""
    model = _model()
    far = torch.tensor([[[9.0, 9.0, 9.0], [-40.0, 0.5, 0.5], [0.5, 0.5, 0.5]]])
    features = torch.randn(1, 6, 6, 6, 1)
    out = model(_surface(30, 0)[None] + 0.6, _grid(6, 6, 6)[None], far, None, features)[0]
    nothing = model.projection(torch.zeros(1, 8, 1)).flatten()
    torch.testing.assert_close(out[:2], nothing.expand(2, 2))
    assert not torch.allclose(out[2], nothing)
    model(far[:, :1], _grid(6, 6, 6)[None], far[:, :2], torch.ones(1, 1, 3), features).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_mesh_with_one_point():
    model = _model()
    one = torch.tensor([[[0.5, 0.4, 0.6]]])
    out = model(one, _grid(6, 6, 6)[None], one, torch.ones(1, 1, 3), torch.zeros(1, 6, 6, 6, 1))
    assert out.shape == (1, 1, 2)
    assert out.isfinite().all()


def test_a_moved_geometry_is_not_served_from_the_cache():
    model = _model()
    points, grid, queries = _surface(40, 0)[None], _grid(6, 6, 6)[None], _surface(10, 1)[None]
    features = torch.zeros(1, 6, 6, 6, 1)
    before = model(points, grid, queries, None, features)
    points += 0.2
    after = model(points, grid, queries, None, features)
    fresh = _model()(points, grid, queries, None, features)
    assert torch.equal(after, fresh)
    assert not torch.allclose(after, before)


def test_memory_of_a_step_grows_with_the_points_and_not_with_the_edges():
    """With twice the radius there are many more edges, in the same memory beside their two indices."""
    points, grid = _surface(1000, 0)[None], _grid(12, 12, 12)[None]
    peaks, edges = [], []
    for radius in (0.12, 0.2):
        model = _model(
            in_gno_radius=radius, out_gno_radius=radius, memory_limit=1 << 20, latent_feature_channels=None,
            out_gno_channel_mlp_hidden_layers=(96, 96),
        )  # fmt: skip
        graphs = [model.cache.graph(a, b, radius) for a, b in itertools.permutations((points[0], grid.view(-1, 3)))]
        with LiveBytes() as live:
            held = live.hold([*model.parameters(), points, grid, *(t for g in graphs for t in (g.source, g.target))])
            model(points, grid, points).sum().backward()
        peaks.append(live.peak(without=held))
        edges.append(graphs[0].n_edges)
    assert edges[1] > 3 * edges[0]
    assert peaks[1] < 1.5 * peaks[0]
    assert peaks[1] < edges[1] * 4 * (96 + 96 + 8) / 2  # the messages in one piece would be twice all there is


def test_config_builds_the_same_model_again():
    model = _model(out_gno_tanh="both", in_gno_pos_embed_type=None, fno_channel_mlp_expansion=None)
    again = build_model("GINO", model.config)
    again.load_state_dict(model.state_dict())
    call = (_surface(20, 0)[None], _grid(6, 6, 6)[None], _surface(9, 1)[None], None, torch.ones(1, 6, 6, 6, 1))
    assert torch.equal(again(*call), model(*call))


def _call(**changes):
    given = {
        "input_geom": torch.rand(1, 5, 3),
        "latent_queries": _grid(4, 4, 4)[None],
        "output_queries": torch.rand(1, 4, 3),
        "x": torch.ones(1, 5, 3),
        "latent_features": torch.ones(1, 4, 4, 4, 1),
        **changes,
    }
    return _model()(**given)


NAN = torch.tensor([[[0.5, float("nan"), 0.5]]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _call(input_geom=NAN, x=None), "input_geom hold NaN"),
        (lambda: _call(output_queries=NAN), "output_queries hold NaN"),
        (lambda: _call(latent_queries=_grid(4, 4, 4)[None] * float("nan")), "query points hold NaN"),
        (lambda: _call(input_geom=torch.rand(2, 5, 3)), r"expected input_geom \(1, points, 3\)"),
        (lambda: _call(input_geom=torch.rand(5, 3), input_offsets=torch.tensor([0, 3, 3, 5])), "grow with every geom"),
        (lambda: _call(input_geom=torch.rand(5, 3), input_offsets=torch.tensor([0, 5]), x=torch.ones(4, 3)), "x .5 po"),
        (lambda: _call(output_queries=torch.rand(4, 3), output_offsets=torch.tensor([0, 2, 4])), "2 geometries in out"),
        (lambda: _call(output_queries={"a": torch.rand(4, 3)}, output_offsets=torch.tensor([0, 4])), "to be one with"),
        (lambda: _call(latent_queries=_grid(4, 4)), "expected latent_queries"),
        (lambda: _call(x=torch.ones(1, 5, 4)), r"expected x \(batch, 5 points, 3 channels\)"),
        (lambda: _call(latent_features=None), "has 1 latent features and got none"),
        (lambda: _call(latent_features=torch.ones(1, 4, 4, 4, 2)), "expected latent_features"),
        (lambda: _call(x=torch.ones(2, 5, 3), latent_features=torch.ones(3, 4, 4, 4, 1)), "for 3 samples and 2"),
        (lambda: _model(in_gno_radius=0), "in_gno_radius must be a positive number, got 0"),
        (lambda: _model(out_gno_tanh="input"), "unknown out_gno_tanh 'input'"),
        (lambda: _model(fno_n_layers=0), "fno_n_layers must be a positive integer, got 0"),
        (lambda: _model(fno_n_modes=(4, 4, 4, 4)), "n_modes must be one to three"),
        (lambda: build_model("GINO", {**SMALL, "width": 3}), "GINO: .*width"),
        (lambda: pack_points([]), "nothing to pack"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
