"""Every setting and every name of a neuraloperator model: carried over, or refused in one line."""

import copy
import functools
import inspect

import pytest
import torch
from neuralop.layers.embeddings import GridEmbedding2D, GridEmbeddingND
from neuralop.layers.spectral_convolution import SpectralConv as PeerConv
from neuralop.models import FNO as PeerFNO
from neuralop.models import SFNO as PeerSFNO
from neuralop.models import UNO as PeerUNO
from torch import nn
from torch.nn import functional as F

import halfwave as hw
from halfwave.interop import from_neuralop, to_neuralop_state_dict


def _peer(model=PeerFNO, **options):
    torch.manual_seed(0)
    sizes = {"n_modes": (6, 6), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2}
    return model(**{**sizes, **options})


def _field(grid=(12, 15)):
    return torch.randn(2, 1, *grid, generator=torch.Generator().manual_seed(1))


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _assert_equal(peer, x, sources=None, **call):
    expected = peer(x, **call)
    for source in sources or (peer, peer.state_dict()):
        assert _relative(from_neuralop(source)(x, **call), expected) < 1e-5


def _refused(source, message, **options):
    with pytest.raises(ValueError, match=message) as raised:
        from_neuralop(source, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("function", [F.relu, F.silu, torch.tanh, nn.Tanh(), nn.GELU(), F.elu])
def test_nonlinearities_are_carried_over(function):
    peer = _peer(non_linearity=function)
    _assert_equal(peer, _field())
    # Not those of the channel MLPs, which are gelus in neuraloperator whatever is asked for.
    model = from_neuralop(peer)
    assert {model.lifting.non_linearity, model.projection.non_linearity} == {model.config["non_linearity"]}
    assert {block.mlp.non_linearity for block in model.blocks} == {"gelu"}


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x, "<lambda>"),
        (torch.sin, "sin"),
        (nn.GELU("tanh"), "GELU"),
        (nn.LeakyReLU(0.2), "LeakyReLU"),
        (nn.PReLU(), "PReLU"),
        (functools.partial(F.gelu, approximate="tanh"), "partial"),
    ],
)
def test_unknown_nonlinearities_are_refused(function, name):
    peer = _peer(non_linearity=function)
    _refused(peer, f"unknown non_linearity {name}")
    _refused(peer.state_dict(), f"unknown non_linearity {name}")


def test_the_nonlinearity_that_runs_counts_not_the_one_given():
    peer = _peer()
    peer.fno_blocks.non_linearity = F.relu
    _refused(peer, "several nonlinearities, gelu and relu")
    peer.lifting.non_linearity = peer.projection.non_linearity = F.relu
    _assert_equal(peer, _field(), [peer])


def test_a_stabilizer_becomes_the_policy_s():
    peer, x = _peer(stabilizer="tanh"), 3 * _field()
    _assert_equal(peer, x)
    model = from_neuralop(peer, "mixed")
    assert {block.conv.stabilizer for block in model.blocks} == {"tanh"}
    hw.set_precision(model, "full")
    assert _relative(model(x), peer(x)) < 1e-5
    _refused(peer, "stabilizer 'tanh' and the policy has 'hard-clip'", precision=hw.Policy(stabilizer="hard-clip"))


@pytest.mark.parametrize("embedding", [GridEmbeddingND, GridEmbedding2D])
def test_boundaries_of_the_grid_are_carried_over(embedding):
    arguments = {"dim": 2} if embedding is GridEmbeddingND else {}
    peer = _peer(positional_embedding=embedding(1, grid_boundaries=[[-1, 2], [0, 3.5]], **arguments))
    _assert_equal(peer, _field())
    assert from_neuralop(peer).config["positional_embedding"]["grid_boundaries"] == [[-1.0, 2.0], [0.0, 3.5]]


def test_dropout_and_its_mode_are_carried_over():
    peer, x = _peer(channel_mlp_dropout=0.4), _field()
    trained = from_neuralop(peer)
    assert trained.training
    assert not torch.equal(trained(x), trained(x))
    _assert_equal(peer.eval(), x, [peer])
    assert not from_neuralop(peer).training
    assert from_neuralop(peer.state_dict()).config["channel_mlp_dropout"] == 0.4
    peer.fno_blocks.channel_mlp[1].dropout[0].train()
    _refused(peer, "dropout layers in another mode")
    peer.eval().fno_blocks.channel_mlp[1].dropout[0].p = 0.5
    _refused(peer, "layers that differ in dropout")


class _OwnForward(PeerFNO):
    def forward(self, x):
        return 2 * super().forward(x)


class _OwnConstructor(PeerFNO):
    def __init__(self, **options):
        super().__init__(**options)
        self.note = "mine"


def test_code_of_the_user_s_own_is_refused():
    _refused(_peer(_OwnForward), "the model .* has a forward of its own")
    _refused(_peer(_OwnForward).state_dict(), "of the class '_OwnForward'")
    replaced = _peer()
    replaced.fno_blocks.forward = lambda *_: 0
    _refused(replaced, "fno_blocks .* has a forward of its own")
    hooked = _peer()
    hooked.fno_blocks.convs[1].register_forward_pre_hook(lambda *_: None)
    _refused(hooked, r"fno_blocks.convs.1 \(SpectralConv\) .* hooks")
    normed = _peer()
    torch.nn.utils.parametrizations.weight_norm(normed.lifting.fcs[0])
    _refused(normed, "lifting.fcs.0 .* class that halfwave does not know")
    _refused(nn.Sequential(_peer()), "cannot carry over a Sequential")
    _assert_equal(_peer(_OwnConstructor), _field(), [_peer(_OwnConstructor)])


def test_another_model_of_theirs_is_refused():
    layers = {"uno_out_channels": [4, 4], "uno_n_modes": [[4, 4]] * 2, "uno_scalings": [[1, 1]] * 2, "n_layers": 2}
    peer = PeerUNO(1, 1, 4, channel_mlp_skip="linear", **layers)
    _refused(peer, "cannot carry over a UNO")


@pytest.mark.parametrize("norm", ["group_norm", "instance_norm"])
@pytest.mark.parametrize("options", [{}, {"preactivation": True}, {"use_channel_mlp": False}])
def test_norms_are_carried_over(norm, options):
    peer = _peer(norm=norm, **options)
    with torch.no_grad():
        for parameter in peer.fno_blocks.norm.parameters():
            parameter.add_(torch.randn_like(parameter))
    _assert_equal(peer, _field())
    state = to_neuralop_state_dict(from_neuralop(peer))
    theirs = {name: value for name, value in peer.state_dict().items() if isinstance(value, torch.Tensor)}
    assert state.keys() == theirs.keys()
    assert all(torch.equal(state[name], value) for name, value in theirs.items())


def _bare(peer):
    return {name: value for name, value in peer.state_dict().items() if name != "_metadata"}


def test_every_name_finds_its_place():
    peer = _peer(norm="group_norm")
    _assert_equal(peer, _field(), [_bare(peer)])
    state = _bare(peer)
    _refused({**state, "fno_blocks.extra": torch.ones(1)}, "hold 'fno_blocks.extra', which halfwave's FNO has no place")
    _refused({**state, "epoch": 3}, "'epoch' to be a tensor")
    _refused(_bare(_peer(norm="batch_norm")), "hold 'fno_blocks.norm.0.norm.bias'")
    _refused(_peer(norm="batch_norm"), "the norm BatchNorm")
    _refused(_peer(norm="batch_norm").state_dict(), "the norm 'batch_norm'")
    del state["fno_blocks.norm.3.bias"]
    _refused(state, "'fno_blocks.norm.3.bias' of shape .* is missing")
    wide = {**_bare(peer), "lifting.fcs.1.bias": torch.ones(7)}
    _refused(wide, r"'lifting.fcs.1.bias' of shape \(6,\) is expected, and \(7,\) is given")


@pytest.mark.parametrize("hidden", [6, 49])
def test_outer_maps_of_every_width_are_carried_over(hidden):
    # 1/49 of 49 channels is not 1 in floating point.
    ratios = {"lifting_channel_ratio": 0, "projection_channel_ratio": 1.01 / hidden, "n_layers": 1}
    _assert_equal(_peer(hidden_channels=hidden, **ratios), _field())
    _assert_equal(_peer(hidden_channels=hidden, lifting_channel_ratio=1.01 / hidden, n_layers=1), _field())


@pytest.mark.parametrize("factorization", [None, "tucker", "tt"])
@pytest.mark.parametrize("modes", [(6, 6), (3, 5), (4, 3)])
def test_lowered_modes_are_carried_over(factorization, modes):
    options = {"factorization": factorization, "rank": 0.5}
    _assert_equal(_peer(n_modes=modes, max_n_modes=(9, 8), **options), _field())
    peer = _peer(n_modes=(6, 7), **options)
    peer.n_modes = modes
    _assert_equal(peer, _field(), [peer])
    model = from_neuralop(peer)
    model.n_modes, peer.n_modes = (6, 7), (6, 7)
    assert _relative(model(_field()), peer(_field())) < 1e-5
    _refused(_peer(max_n_modes=(4, 4)), "n_modes .* must not pass max_n_modes")


@pytest.mark.parametrize("factor", [1, 2, [2, 0.5], [[1, 2], [1.5, 1]]])
@pytest.mark.parametrize("model", [PeerFNO, PeerSFNO])
def test_scaling_is_carried_over(factor, model):
    _assert_equal(_peer(model, resolution_scaling_factor=factor), _field((14, 16)))


@pytest.mark.parametrize(("modes", "grid"), [((6,), (17,)), ((6, 6), (12, 15)), ((4, 4, 4), (6, 7, 8))])
def test_output_shapes_are_those_of_theirs(modes, grid):
    peer = _peer(n_modes=modes)
    finer = tuple(n + 3 for n in grid)
    for shape in (finer, [finer, grid], [None, finer]):
        _assert_equal(peer, _field(grid), [peer], output_shape=shape)


def test_padding_with_and_without_scaling():
    _assert_equal(_peer(domain_padding=[0.2, 0.4], resolution_scaling_factor=1), _field())
    _assert_equal(_peer(domain_padding=0.3, resolution_scaling_factor=1.5, n_layers=1), _field())
    # A tuple pads nothing in neuraloperator.
    _assert_equal(_peer(domain_padding=(0.5, 0.5)), _field())
    _refused(_peer(domain_padding=0.3, resolution_scaling_factor=[2, 0.5]), "domain_padding with a resolution_scaling")


@pytest.mark.parametrize("grid", [(5, 14), (4, 12), (2, 9)])
def test_fewer_latitudes_than_degrees(grid):
    _assert_equal(_peer(PeerSFNO), _field(grid))


def test_weights_in_real_pairs_are_carried_over():
    for kind in ("ComplexDense", "ComplexTucker", "ComplexTT"):
        peer = _peer(factorization=kind, rank=0.5)
        _assert_equal(peer, _field(), [peer, peer.state_dict(), _bare(peer)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"complex_data": True}, "complex_data"),
        ({"fno_block_precision": "mixed"}, "fno_block_precision 'mixed'"),
        ({"conv_module": functools.partial(PeerConv, fft_norm="ortho")}, "fft_norm 'ortho'"),
        ({"conv_module": functools.partial(PeerConv, bias=False)}, "convolutions without a bias"),
        ({"n_modes": (4,) * 4}, "n_modes must be one to three"),
    ],
)
def test_settings_that_ours_does_not_have_are_refused(options, message):
    _refused(_peer(**options), message)


def test_a_version_or_an_option_that_is_not_known_is_refused(monkeypatch):
    peer = _peer()
    signature = inspect.signature(PeerConv.__init__)
    new = inspect.Parameter("enforce_hermitian_symmetry", inspect.Parameter.KEYWORD_ONLY, default=True)
    monkeypatch.setattr(
        PeerConv.__init__,
        "__signature__",
        signature.replace(parameters=[*signature.parameters.values(), new]),
        raising=False,
    )
    _refused(peer, "has the option enforce_hermitian_symmetry, which halfwave does not know")
    for conv in peer.fno_blocks.convs:
        conv.enforce_hermitian_symmetry = False
    _assert_equal(peer, _field(), [peer])
    monkeypatch.setattr("neuralop.__version__", "2.1.0")
    _refused(peer, "a model of neuraloperator 2.1.0")


def test_arguments_by_position_are_read_from_metadata():
    torch.manual_seed(0)
    peer = PeerFNO((6, 6), 1, 1, 6, 2, 1, 1, None, F.relu, "group_norm")
    _assert_equal(peer, _field())
    state = copy.copy(peer.state_dict())
    state["_metadata"] = {**state["_metadata"], "new_option": 3}
    _refused(state, "the option new_option")


def test_frozen_weights_dtype_and_device_are_kept():
    peer = _peer().double()
    peer.lifting.requires_grad_(False)
    peer.fno_blocks.convs[0].weight.requires_grad_(False)
    model = from_neuralop(peer)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert {name.split(".fcs")[0].split(".weight")[0] for name in frozen} == {"lifting", "blocks.0.conv"}
    _refused(_peer().half(), "weights in .* cannot be carried over")
