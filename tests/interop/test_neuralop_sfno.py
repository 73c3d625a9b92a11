"""neuraloperator's SFNO and ours from the same weights."""

import pytest
import torch
from neuralop.layers.spherical_convolution import SphericalConv
from neuralop.models import SFNO as PeerSFNO

from halfwave.interop import from_neuralop, to_neuralop_state_dict
from halfwave.models import SFNO
from halfwave.spectral import SpectralConv, SphericalTransform


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _peer(modes=(16, 24), **options):
    torch.manual_seed(0)
    return PeerSFNO(n_modes=modes, in_channels=2, out_channels=3, hidden_channels=8, **options)


@pytest.mark.parametrize(("modes", "grid"), [((16, 32), (16, 32)), ((12, 12), (24, 48)), ((9, 7), (33, 21))])
def test_same_weights_same_outputs_at_once_and_twice_the_resolution(modes, grid):
    peer = _peer(modes)
    for source in (peer, peer.state_dict()):
        ours = from_neuralop(source)
        assert isinstance(ours, SFNO)
        for factor in (1, 2):
            x = torch.randn(2, 2, *(factor * n for n in grid))
            assert _relative(ours(x), peer(x)) < 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"fno_skip": "identity", "channel_mlp_skip": "linear"},
        {"fno_skip": None, "channel_mlp_skip": None},
        {"positional_embedding": None, "n_layers": 2},
        {"use_channel_mlp": False},
        {"channel_mlp_expansion": 1.5, "lifting_channel_ratio": 1, "projection_channel_ratio": 4, "n_layers": 2},
    ],
)
def test_options_are_carried_over(options):
    peer = _peer(**options)
    x = torch.randn(2, 2, 20, 40)
    assert _relative(from_neuralop(peer)(x), peer(x)) < 1e-5


@pytest.mark.parametrize("factorization", ["cp", "tucker", "tt"])
@pytest.mark.parametrize("implementation", ["factorized", "reconstructed"])
def test_factorized_weights_are_carried_over_and_back(factorization, implementation):
    peer = _peer(factorization=factorization, rank=0.3, implementation=implementation, n_layers=2)
    x = torch.randn(2, 2, 20, 40)
    for source in (peer, peer.state_dict()):
        ours = from_neuralop(source)
        assert ours.config["factorization"] == factorization
        assert _relative(ours(x), peer(x)) < 1e-5
    theirs = {name: value for name, value in peer.state_dict().items() if isinstance(value, torch.Tensor)}
    state = to_neuralop_state_dict(ours)
    assert state.keys() == theirs.keys()
    assert all(torch.equal(state[name], value) for name, value in theirs.items())


@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
def test_convolution_equals_theirs_on_both_grids_and_between_sizes(kind):
    torch.manual_seed(0)
    peer = SphericalConv(3, 5, (10, 16), factorization="dense", sht_grids=kind)
    ours = SpectralConv(3, 5, (10, 16), transform=SphericalTransform((10, 16), kind))
    ours.weight.set_dense(peer.weight.to_tensor())
    ours.bias.data = peer.bias.detach().flatten()
    x = torch.randn(2, 3, 20, 40)
    for target in (None, (32, 64)):
        assert _relative(ours(x, target), peer(x, target)) < 1e-5


def test_gradients_equal_theirs():
    peer = _peer()
    ours = from_neuralop(peer)
    x = torch.randn(2, 2, 16, 32)
    for model in (peer, ours):
        model(x).square().mean().backward()
    theirs = {name: p.grad for name, p in peer.named_parameters()}
    pairs = (
        torch.view_as_real(theirs["fno_blocks.convs.0.weight.tensor"])
        if (theirs["fno_blocks.convs.0.weight.tensor"].is_complex())
        else theirs["fno_blocks.convs.0.weight.tensor"]
    )
    found = ours.blocks[0].conv.weight.weight.grad.permute(1, 3, 0, 2)
    assert _relative(found, pairs) < 1e-4
    assert _relative(ours.lifting.fcs[0].weight.grad, theirs["lifting.fcs.0.weight"].squeeze(-1)) < 1e-4


def test_round_trip_of_the_state_dict():
    peer = _peer()
    state = to_neuralop_state_dict(from_neuralop(peer))
    tensors = {name: value for name, value in peer.state_dict().items() if isinstance(value, torch.Tensor)}
    assert state.keys() == tensors.keys()
    for name, value in tensors.items():
        assert torch.equal(state[name], value), name


def test_what_cannot_be_carried_over_raises():
    state = dict(_peer().state_dict())
    del state["_metadata"]
    with pytest.raises(ValueError, match="do not say how many orders"):
        from_neuralop(state)
    with pytest.raises(ValueError, match="domain_padding on the sphere, which halfwave does not have"):
        from_neuralop(_peer(domain_padding=0.1))
