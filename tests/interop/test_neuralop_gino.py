"""neuraloperator's GINO and ours from the same weights."""

import pytest
import torch
from neuralop.models import GINO as PeerGINO

from halfwave.interop import from_neuralop, to_neuralop_state_dict

RADIUS = 0.2


def _peer(dim=3, **options):
    torch.manual_seed(0)
    return PeerGINO(
        **{
            "in_channels": 3,
            "out_channels": 2,
            "gno_coord_dim": dim,
            "in_gno_radius": RADIUS,
            "out_gno_radius": RADIUS,
            "fno_n_modes": (4, 5, 6)[:dim],
            "fno_hidden_channels": 8,
            "fno_n_layers": 2,
            "in_gno_channel_mlp_hidden_layers": [16, 16],
            "out_gno_channel_mlp_hidden_layers": [16, 12],
            "gno_use_open3d": False,
            "gno_use_torch_scatter": False,
            **options,
        }
    )


def _call(dim, features, batch=2):
    """Points that are not on the edge of each other's neighbourhoods, where two roundings of a distance may differ."""
    generator = torch.Generator().manual_seed(1)
    sizes = (7, 8, 9)[:dim]
    grid = torch.stack(torch.meshgrid(*(torch.linspace(0, 1, n) for n in sizes), indexing="ij"), dim=-1)
    clouds = []
    for count in (60, 50):
        points = torch.rand(4 * count, dim, generator=generator)
        clear = ((torch.cdist(points.double(), grid.view(-1, dim).double()) - RADIUS).abs() > 1e-4).all(1)
        clouds.append(points[clear][:count][None])
    x = torch.randn(batch, 60, 3, generator=generator)
    latent = torch.randn(batch, *sizes, features, generator=generator) if features else None
    return clouds[0], grid[None], clouds[1], x, latent


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize(
    ("dim", "options"),
    [
        (3, {"latent_feature_channels": 1}),
        (2, {"latent_feature_channels": 2, "projection_channel_ratio": 2, "fno_lifting_channel_ratio": 1}),
        (3, {"in_gno_transform_type": "nonlinear", "out_gno_transform_type": "nonlinear_kernelonly"}),
        (3, {"in_gno_transform_type": "linear_kernelonly", "out_gno_transform_type": "nonlinear"}),
        (3, {"in_gno_pos_embed_type": "nerf", "out_gno_pos_embed_type": None, "gno_embed_channels": 4}),
        (3, {"gno_weighting_function": "half_cos", "gno_weight_function_scale": 2.0, "out_gno_tanh": "latent_embed"}),
        (3, {"fno_skip": "identity", "fno_channel_mlp_skip": "linear", "fno_channel_mlp_expansion": 1.0}),
        (3, {"fno_use_channel_mlp": False, "in_gno_channel_mlp_hidden_layers": [3]}),
        (3, {"fno_factorization": "tucker", "fno_rank": 0.4}),
        (3, {"fno_stabilizer": "tanh", "fno_resolution_scaling_factor": 1}),
        (3, {"fno_factorization": "cp", "fno_rank": 0.4, "fno_implementation": "reconstructed"}),
        (2, {"fno_factorization": "tt", "fno_rank": 0.4, "fno_separable": True}),
    ],
)
def test_same_weights_same_outputs(dim, options):
    peer = _peer(dim, **options)
    ours = from_neuralop(peer)
    points, grid, queries, x, latent = _call(dim, options.get("latent_feature_channels"))
    expected = peer(points, grid, queries, x=x, latent_features=latent)
    assert _relative(ours(points, grid, queries, x, latent), expected) < 1e-5


def test_default_architecture_without_input_functions():
    """neuraloperator's own widths and embeddings, on fewer modes."""
    torch.manual_seed(0)
    peer = PeerGINO(
        3, 1, latent_feature_channels=1, fno_n_modes=(4, 4, 4), in_gno_radius=RADIUS, out_gno_radius=RADIUS,
        gno_use_open3d=False, gno_use_torch_scatter=False,
    )  # fmt: skip
    points, grid, queries, _, latent = _call(3, 1, batch=1)
    expected = peer(points, grid, queries, latent_features=latent)
    assert _relative(from_neuralop(peer)(points, grid, queries, None, latent), expected) < 1e-4


def test_round_trip_of_the_state_dict():
    peer = _peer(latent_feature_channels=1)
    state = to_neuralop_state_dict(from_neuralop(peer))
    for name, value in peer.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(state[name], value), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fno_norm": "group_norm"}, "norm 'group_norm'"),
        ({"fno_channel_mlp_dropout": 0.5}, "channel_mlp_dropout 0.5"),
        ({"fno_non_linearity": torch.nn.functional.silu}, "non_linearity 'silu'"),
        ({"fno_preactivation": True}, "preactivation"),
        ({"fno_resolution_scaling_factor": 2}, r"scaling \(\(2.0, 2.0, 2.0\)"),
        ({"gno_channel_mlp_non_linearity": torch.nn.functional.relu}, "another nonlinearity"),
    ],
)
def test_what_cannot_be_carried_over_raises(options, message):
    with pytest.raises(ValueError, match=message):
        from_neuralop(_peer(**options))


def test_a_state_dict_is_not_enough():
    with pytest.raises(ValueError, match="expected the model itself"):
        from_neuralop(_peer().state_dict())


def test_a_gino_with_code_of_its_own_is_refused():
    peer = _peer()
    peer.fno_blocks.n_modes = (2, 2, 2)
    with pytest.raises(ValueError, match=r"weights for \(4, 5, 4\) modes in a GINO that keeps \(2, 2, 2\)"):
        from_neuralop(peer)
    peer = _peer()
    peer.gno_out.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r"gno_out .* has hooks"):
        from_neuralop(peer)
