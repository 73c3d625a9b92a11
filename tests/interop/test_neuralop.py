"""neuraloperator's FNO and ours from the same weights."""

import pytest
import torch
from neuralop.models import FNO as PeerFNO
from neuralop.models import TFNO as PeerTFNO

from halfwave.interop import from_neuralop, to_neuralop_state_dict


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize(
    ("modes", "grid"), [((16,), (64,)), ((8, 8), (32, 32)), ((9, 12), (33, 20)), ((6, 6, 6), (16, 12, 16))]
)
def test_same_weights_same_outputs_at_once_and_twice_the_resolution(modes, grid):
    torch.manual_seed(0)
    peer = PeerFNO(n_modes=modes, in_channels=2, out_channels=3, hidden_channels=8)
    for source in (peer, peer.state_dict()):
        ours = from_neuralop(source)
        for factor in (1, 2):
            x = torch.randn(2, 2, *(factor * n for n in grid))
            assert _relative(ours(x), peer(x)) < 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"domain_padding": 0.25},
        {"fno_skip": "identity", "channel_mlp_skip": "linear"},
        {"fno_skip": None, "channel_mlp_skip": None},
        {"fno_skip": "soft-gating", "channel_mlp_skip": "identity", "positional_embedding": None},
        {"use_channel_mlp": False},
        {"channel_mlp_expansion": 1.5, "lifting_channel_ratio": 1, "projection_channel_ratio": 4, "n_layers": 2},
    ],
)
def test_options_are_carried_over(options):
    torch.manual_seed(0)
    peer = PeerFNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=8, **options)
    x = torch.randn(2, 1, 20, 24)
    assert _relative(from_neuralop(peer)(x), peer(x)) < 1e-5


FACTORIZED = [
    {"factorization": kind, "rank": rank, **options}
    for kind, rank in (("cp", 0.2), ("Tucker", 0.3), ("tt", 0.3), ("tucker", 3))
    for options in ({}, {"separable": True}, {"implementation": "reconstructed"})
] + [{"separable": True}]


@pytest.mark.parametrize("options", FACTORIZED)
@pytest.mark.parametrize(("modes", "grid"), [((16,), (33,)), ((8, 9), (21, 16)), ((4, 6, 8), (5, 8, 6))])
def test_factorized_weights_are_carried_over(options, modes, grid):
    torch.manual_seed(0)
    peer = PeerFNO(n_modes=modes, in_channels=1, out_channels=1, hidden_channels=8, n_layers=2, **options)
    x = torch.randn(2, 1, *grid)
    expected = peer(x)
    for source in (peer, peer.state_dict()):
        ours = from_neuralop(source)
        assert _relative(ours(x), expected) < 1e-5
        assert sum(p.numel() for p in ours.parameters()) == _real_parameters(peer)
    state = to_neuralop_state_dict(ours)
    theirs = {k: v for k, v in peer.state_dict().items() if isinstance(v, torch.Tensor)}
    assert state.keys() == theirs.keys()
    assert all(torch.equal(state[name], value) for name, value in theirs.items())


def _real_parameters(model):
    """A complex number counts as the two real ones it is."""
    state = [v for v in model.state_dict().values() if isinstance(v, torch.Tensor)]
    return sum(t.numel() * (2 if t.is_complex() else 1) for t in state)


def test_a_tfno_of_theirs_with_its_defaults():
    torch.manual_seed(0)
    peer = PeerTFNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=16)
    x = torch.randn(2, 1, 20, 24)
    assert _relative(from_neuralop(peer)(x), peer(x)) < 1e-5


def test_round_trip_of_the_state_dict():
    torch.manual_seed(0)
    peer = PeerFNO(n_modes=(8, 6), in_channels=1, out_channels=1, hidden_channels=8)
    state = to_neuralop_state_dict(from_neuralop(peer))
    for name, value in peer.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(state[name], value), name


def test_what_cannot_be_carried_over_raises():
    with pytest.raises(ValueError, match="not the weights of a neuraloperator FNO"):
        from_neuralop({"weight": torch.ones(1)})
    state = PeerFNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4).state_dict()
    renamed = {k.replace("weight.tensor", "weight.block"): v for k, v in state.items()}
    with pytest.raises(ValueError, match="found block, expected those of a dense, cp, tucker or tt tensor"):
        from_neuralop(renamed)
