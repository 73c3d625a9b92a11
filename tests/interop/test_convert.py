"""convert: neuraloperator's convolutions inside somebody's module, in ours."""

import copy

import pytest
import torch
from neuralop.layers.spectral_convolution import SpectralConv as PeerConv
from neuralop.layers.spherical_convolution import SphericalConv as PeerSphericalConv
from neuralop.models import FNO as PeerFNO
from neuralop.models import GINO as PeerGINO
from neuralop.models import SFNO as PeerSFNO
from neuralop.models import TFNO as PeerTFNO
from neuralop.models import UNO as PeerUNO
from torch import nn

import halfwave as hw
from halfwave.certificates.conv_bound import bound_conv, weight_norms
from halfwave.certificates.norms import largest_rms
from halfwave.errors import InputError
from halfwave.interop import convert, from_neuralop
from halfwave.interop.converted import ConvertedChannelMLP, ConvertedConv
from halfwave.measure import measure_step, training_step
from halfwave.models import pointwise


class HandWritten(nn.Module):
    """Two blocks of somebody's own, around neuraloperator's convolution."""

    def __init__(self, channels=16, modes=(16, 16), **options):
        super().__init__()
        self.lift = nn.Conv2d(1, channels, 1)
        self.first = PeerConv(channels, channels, modes, **options)
        self.second = PeerConv(channels, channels, modes, **options)
        self.skips = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.out = nn.Conv2d(channels, 1, 1)

    def forward(self, x):
        v = self.lift(x)
        for conv, skip in zip((self.first, self.second), self.skips, strict=True):
            v = nn.functional.gelu(conv(v) + skip(v))
        return self.out(v)


def _fno(**options):
    return PeerFNO(**{"n_modes": (16, 16), "in_channels": 1, "out_channels": 1, "hidden_channels": 16, **options})


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _mean_square(a, b):
    return (a - b).square().mean()


WEIGHTS = [
    {},
    {"factorization": "cp", "rank": 0.3},
    {"factorization": "tucker", "rank": 0.3, "implementation": "factorized"},
    {"factorization": "tt", "rank": 0.3},
    {"separable": True},
    {"bias": False},
]


@pytest.mark.parametrize("options", WEIGHTS)
@pytest.mark.parametrize(("modes", "grid"), [((16,), (33,)), ((8, 9), (21, 16)), ((4, 6, 8), (5, 8, 6))])
def test_a_convolution_equals_the_old_one_on_every_output_grid(options, modes, grid):
    torch.manual_seed(0)
    peer = PeerConv(4, 4, modes, **options)
    ours = convert(copy.deepcopy(peer), "full")
    x = torch.randn(2, 4, *grid)
    assert _relative(ours(x), peer(x)) < 1e-6
    assert ours.transform(x) is x
    for factor in (2, 1.5, 0.5, 0.3):
        shape = tuple(max(2, round(factor * n)) for n in grid)
        assert _relative(ours(x, output_shape=shape), peer(x, output_shape=shape)) < 1e-6
        assert torch.equal(ours.transform(x, output_shape=shape), peer.transform(x, output_shape=shape))


@pytest.mark.parametrize("grid", ["equiangular", "legendre-gauss"])
@pytest.mark.parametrize("factorization", [None, "cp", "tucker", "tt"])
def test_a_convolution_on_the_sphere_equals_the_old_one(grid, factorization):
    torch.manual_seed(0)
    peer = PeerSphericalConv(4, 4, (8, 8), factorization=factorization, sht_grids=grid, resolution_scaling_factor=1.5)
    ours = convert(copy.deepcopy(peer), "full")
    x = torch.randn(2, 4, 16, 32)
    for shape in (None, (16, 32), (24, 40)):
        assert _relative(ours(x, output_shape=shape), peer(x, output_shape=shape)) < 1e-6
        assert _relative(ours.transform(x, output_shape=shape), peer.transform(x, output_shape=shape)) < 1e-6


MODELS = {
    "FNO": lambda: _fno(),
    "FNO with norms": lambda: _fno(norm="group_norm", preactivation=True, channel_mlp_dropout=0.1),
    "FNO that doubles the grid": lambda: _fno(resolution_scaling_factor=[2, 1, 1, 1]),
    "TFNO": lambda: PeerTFNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=16),
    "SFNO": lambda: PeerSFNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=8),
    "UNO": lambda: PeerUNO(
        in_channels=1,
        out_channels=1,
        hidden_channels=8,
        n_layers=3,
        uno_out_channels=[8, 16, 8],
        uno_n_modes=[[8, 8]] * 3,
        uno_scalings=[[0.5, 0.5], [1, 1], [2, 2]],
        channel_mlp_skip="linear",
    ),
    "hand-written": HandWritten,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_converted_model_equals_the_old_one(name):
    torch.manual_seed(0)
    peer = MODELS[name]().eval()
    x = torch.randn(2, 1, 20, 24)
    expected = peer(x)
    ours = convert(peer, "full")
    assert ours is peer
    assert not any(type(module).__name__ in ("SpectralConv", "SphericalConv") for module in _foreign(ours))
    assert _relative(ours(x), expected) < 1e-5


def _foreign(model):
    return [module for module in model.modules() if type(module).__module__.startswith("neuralop.")]


def test_a_gino_of_theirs_is_converted_in_its_latent_part():
    torch.manual_seed(0)
    peer = PeerGINO(
        in_channels=1,
        out_channels=1,
        in_gno_radius=0.5,
        out_gno_radius=0.5,
        fno_n_modes=(4, 4, 4),
        fno_hidden_channels=8,
        fno_n_layers=2,
        in_gno_channel_mlp_hidden_layers=[8],
        out_gno_channel_mlp_hidden_layers=[8],
        gno_use_open3d=False,
        gno_use_torch_scatter=False,
    )
    axis = torch.linspace(0, 1, 4)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1)[None]
    points = torch.rand(1, 20, 3)
    arguments = {"input_geom": points, "latent_queries": grid, "output_queries": points, "x": torch.randn(1, 20, 1)}
    expected = peer(**arguments)
    assert _relative(convert(peer, "full")(**arguments), expected) < 1e-5


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_an_fno_stays_within_the_bound_of_its_policy(dtype):
    torch.manual_seed(0)
    peer, x = _fno(n_layers=2), torch.randn(2, 1, 32, 32)
    policy = hw.Policy.named("half", dtype)
    certificate = hw.certify(from_neuralop(peer), x, policy, grid_samples=0)
    expected = peer(x).detach()
    error = (convert(peer, policy)(x).detach() - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    assert bool((error > 0).all())
    assert bool((error <= certificate.answer_bound).all())
    # A bound is loose after a few layers: errors are of the size that was measured for our own FNO as well.
    assert bool((error < 3 * certificate.measured_error).all())


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_every_convolution_of_a_hand_written_module_stays_within_its_bound(dtype):
    torch.manual_seed(0)
    peer = HandWritten()
    ours = convert(copy.deepcopy(peer), hw.Policy.named("half", dtype))
    seen = {}
    for name, module in ours.named_modules():
        if isinstance(module, ConvertedConv):
            module.register_forward_hook(lambda m, inputs, y, name=name: seen.update({name: (inputs[0], y)}))
    ours(torch.randn(2, 1, 32, 32))
    assert set(seen) == {"first", "second"}
    for name, (x, y) in seen.items():
        conv = ours.get_submodule(name).conv
        grid = tuple(x.shape[2:])
        bound = bound_conv(conv, grid, x.device, largest_rms(x.detach()), weight_norms(conv, grid))
        expected = peer.get_submodule(name)(x)
        error, size = largest_rms((y - expected).detach()), largest_rms(expected.detach())
        assert 0 < error <= float(bound) + 1e-6 * size
        assert y.dtype is torch.float32


@pytest.mark.parametrize(
    ("make", "batch", "points"),
    [
        (_fno, 4, 64),
        (lambda: _fno(hidden_channels=32), 1, 64),
        (HandWritten, 4, 64),
        (HandWritten, 1, 32),
        # Modules whose weights outweigh their fields.
        (lambda: HandWritten(32, (32, 32)), 4, 64),
        (lambda: HandWritten(64, (16, 16)), 8, 32),
        (lambda: HandWritten(64, (32, 32)), 1, 64),
    ],
)
def test_half_takes_a_quarter_off_the_activations_at_least(make, batch, points, monkeypatch):
    monkeypatch.setattr(pointwise, "WHOLE_ELEMENTS", 0)  # as of fields that are worth it
    torch.manual_seed(0)
    peer = make()
    ours = convert(copy.deepcopy(peer), "half")
    batch = (torch.randn(batch, 1, points, points), torch.randn(batch, 1, points, points))
    taken = []
    for model in (peer, ours):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        training_step(model, _mean_square, optimizer, batch)
        taken.append(measure_step(model, _mean_square, optimizer, batch).activation_bytes)
    assert taken[1] <= 0.75 * taken[0]


@pytest.mark.parametrize("precision", ["full", "amp", "half", "mixed"])
@pytest.mark.parametrize("make", [_fno, HandWritten])
def test_a_converted_model_trains_saves_and_changes_its_policy(make, precision):
    torch.manual_seed(0)
    ours = convert(make(), precision)
    x = torch.randn(4, 1, 16, 16)
    y = 1 + 0.5 * x
    optimizer = torch.optim.AdamW(ours.parameters(), lr=5e-3, fused=True)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = _mean_square(ours(x), y)
        loss.backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in ours.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]
    again = convert(make(), precision)
    again.load_state_dict(ours.state_dict())
    assert torch.equal(again(x), ours(x))
    hw.set_precision(again, "full")
    if precision in ("half", "mixed"):
        assert not torch.equal(again(x), ours(x))
    assert _relative(again(x), ours(x)) < 0.05


def test_an_autocast_around_the_model_does_not_narrow_the_policy():
    torch.manual_seed(0)
    conv = convert(PeerConv(4, 4, (8, 8)), "full")
    x = torch.randn(2, 4, 16, 16)
    expected = conv(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(conv(x), expected)


def test_shared_layers_stay_shared_and_frozen_ones_frozen():
    model = HandWritten()
    model.second = model.first
    model.skips[0].requires_grad_(False)
    model.first.bias.requires_grad_(False)
    convert(model, "half")
    assert model.second is model.first
    assert not model.first.conv.bias.requires_grad
    assert all(p.requires_grad for p in model.first.conv.weight.parameters())
    tied = HandWritten()
    tied.second.weight = tied.first.weight
    convert(tied, "half")
    assert tied.second is not tied.first
    assert tied.second.conv.weight is tied.first.conv.weight


def test_the_pointwise_format_acts_on_channel_mlps_alone():
    model = convert(_fno(), "mixed")
    mlps = [module for module in model.modules() if isinstance(module, ConvertedChannelMLP)]
    assert len(mlps) == 2 + 4
    assert all(module.mlp.policy.name == "mixed" for module in mlps)
    with_dropout = convert(_fno(channel_mlp_dropout=0.5), "mixed")
    assert sum(isinstance(module, ConvertedChannelMLP) for module in with_dropout.modules()) == 2


class _OwnForward(PeerConv):
    def forward(self, x, output_shape=None):
        return 2 * super().forward(x, output_shape)


def _hooked():
    conv = PeerConv(4, 4, (8, 8))
    conv.register_forward_hook(lambda *_: None)
    return conv


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: nn.Conv2d(1, 1, 1), "Conv2d has no spectral convolution of neuraloperator"),
        (lambda: hw.FNO((4, 4), 1, 1, 4), "set_precision changes the policy of a halfwave model"),
        (lambda: _OwnForward(4, 4, (8, 8)), "1 .* a forward of its own"),
        (lambda: PeerConv(4, 4, (8, 8), complex_data=True), "complex data"),
        (lambda: PeerConv(4, 4, (8, 8), fft_norm="ortho"), "fft_norm 'ortho'"),
        (lambda: PeerConv(4, 4, (8, 8), max_n_modes=(12, 12)), r"weights for \(12, 12\) modes of which it uses"),
        (lambda: PeerSphericalConv(4, 4, (8, 8), separable=True), "separable weights"),
        (lambda: PeerSphericalConv(4, 4, (8, 8), sht_grids=["equiangular", "legendre-gauss"]), "different grids"),
        (_hooked, "hooks, which would be lost"),
    ],
)
def test_what_cannot_be_converted_is_named_and_left_alone(module, message):
    model = nn.Sequential(PeerConv(4, 4, (8, 8)), module())
    if "has no" in message or "set_precision" in message:
        model = module()
    before = list(model.modules())
    with pytest.raises(InputError, match=message):
        convert(model, "half")
    assert list(model.modules()) == before


def test_modes_are_fixed_after_conversion():
    model = convert(_fno(), "half")
    model.fno_blocks.n_modes = (16, 16)
    with pytest.raises(InputError, match="keeps its modes"):
        model.fno_blocks.n_modes = (8, 8)
    with pytest.raises(ValueError, match="unknown precision 'quarter'"):
        convert(_fno(), "quarter")
