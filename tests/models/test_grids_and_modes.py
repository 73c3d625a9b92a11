"""What models do with grids and modes: other output grids, padding, positions, modes that change in training."""

import json
import math

import pytest
import torch

import halfwave as hw
from halfwave.models import FNO, SFNO, TFNO, build_model
from halfwave.models.embeddings import GridEmbedding, SinusoidalEmbedding
from halfwave.models.padding import DomainPadding, check_padding
from halfwave.spectral import FourierTransform, SpectralConv, SphericalTransform
from halfwave.spectral.resampling import resample


def _model(model=FNO, **options):
    torch.manual_seed(0)
    return model(
        **{"n_modes": (6, 6), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2, **options}
    )


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _waves(grid):
    """A band-limited field at the points j/N of a grid: frequencies up to 2 along every axis."""
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) / n for n in grid), indexing="ij")
    field = sum((k + 1) * torch.sin(2 * math.pi * (k + 1) * axis + k) for k, axis in enumerate(axes[:2]))
    return (field * (1 + torch.cos(2 * math.pi * axes[-1])))[None, None]


@pytest.mark.parametrize(("source", "target"), [((16,), (9,)), ((12, 15), (31, 11)), ((9, 10, 12), (14, 9, 13))])
def test_a_band_limited_field_is_resampled_exactly(source, target):
    transform = FourierTransform((4,) * len(source))
    torch.testing.assert_close(resample(_waves(source), target, transform), _waves(target), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
def test_harmonics_are_resampled_exactly_on_the_sphere(kind):
    transform = SphericalTransform((3, 4), kind)
    wider = SphericalTransform((4, 8), kind)
    arith = hw.numerics.arithmetic_of("fp64", "cpu")
    coefficients = torch.randn(4, 2, 4, 1, dtype=torch.float64)
    coefficients *= torch.ones(4, 4).tril()[:, None, :, None]  # no order above its degree
    coefficients[:, 1, 0] = 0
    first, second = (wider.inverse(coefficients, grid, grid, arith) for grid in ((9, 16), (15, 11)))
    torch.testing.assert_close(resample(first, (15, 11), transform), second, rtol=1e-9, atol=1e-9)


def test_a_field_on_its_own_grid_is_left_alone():
    x = torch.randn(1, 2, 8, 8)
    assert resample(x, (8, 8), FourierTransform((4, 4))) is x


def test_blocks_scale_the_grid_and_answer_where_they_are_asked():
    x = torch.randn(2, 1, 12, 10)
    assert _model(resolution_scaling_factor=2)(x).shape[2:] == (48, 40)
    assert _model(resolution_scaling_factor=[2, 0.5])(x).shape[2:] == (12, 10)
    assert _model(resolution_scaling_factor=[[1, 2], [0.5, 1]])(x).shape[2:] == (6, 20)
    assert _model(SFNO, resolution_scaling_factor=1.5)(x).shape[2:] == (27, 22)
    model = _model()
    assert model(x, output_shape=(20, 21)).shape[2:] == (20, 21)
    assert model(x, output_shape=[(20, 21), None]).shape[2:] == (20, 21)
    assert torch.equal(model(x, output_shape=(12, 10)), model(x))


def test_a_band_limited_answer_does_not_depend_on_the_grid_that_is_asked_for():
    """Without a nonlinearity after it, one block on another grid gives the same function at other points."""
    model = FNO((5, 5), 1, 1, 6, n_layers=1, positional_embedding=None, lifting_channel_ratio=0).double()
    model.projection = torch.nn.Identity()
    fine = model(_waves((20, 24)))
    torch.testing.assert_close(
        model(_waves((20, 24)), output_shape=(10, 12)), fine[..., ::2, ::2], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _model(resolution_scaling_factor=[1]), "resolution_scaling_factor must be a positive number, 2"),
        (lambda: _model(resolution_scaling_factor=-1), "resolution_scaling_factor must be"),
        (lambda: _model()(torch.ones(1, 1, 8, 8), output_shape=(4,)), "output_shape must be a tuple of 2 sizes"),
        (lambda: _model()(torch.ones(1, 1, 8, 8), output_shape=[8, 8]), "or a list of 2 such tuples"),
        (lambda: _model(domain_padding_mode="left"), "unknown domain_padding_mode 'left'"),
        (lambda: _model(max_n_modes=(4, 8)), r"n_modes \(6, 6\) must not pass max_n_modes \(4, 8\)"),
        (lambda: _model(positional_embedding=GridEmbedding([[0, 1]])), "1 axes and the grid 2"),
        (lambda: _model(positional_embedding={"kind": "rope"}), "unknown positional_embedding"),
        (lambda: _model(positional_embedding={"kind": "grid", "size": 3}), "unexpected keyword argument 'size'"),
        (lambda: GridEmbedding([[0, 1], [2]]), "must be .start, end. for each axis"),
        (lambda: SinusoidalEmbedding(0), "num_frequencies must be a positive integer, got 0"),
        (lambda: SinusoidalEmbedding(2, "rope"), "unknown embedding_type 'rope'"),
        (lambda: SpectralConv(1, 1, (4, 4), max_n_modes=(8,)), "must not pass max_n_modes"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("mode", "before"), [("symmetric", 3), ("one-sided", 0)])
def test_padding_is_put_where_it_says_and_taken_away_again(mode, before):
    padding, v = check_padding([0.25, 0.1], mode, 2), torch.randn(1, 2, 12, 10)
    padded = padding.pad(v)
    assert padded.shape[2:] == (12 + before + 3, 10 + (1 if mode == "symmetric" else 0) + 1)
    assert torch.equal(padded[:, :, before : before + 12, before // 3 : before // 3 + 10], v)
    assert padded.sum() == pytest.approx(v.sum().item(), abs=1e-4)
    assert torch.equal(padding.unpad(padded, (12, 10)), v)
    doubled = padded.repeat_interleave(2, 2).repeat_interleave(2, 3)
    expected = v.repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(padding.unpad(doubled, (12, 10), (2, 2)), expected)
    assert torch.equal(padding.unpad(doubled, (12, 10)), expected)


def test_no_padding_is_no_work():
    v = torch.randn(1, 2, 6)
    assert DomainPadding((0.0,)).pad(v) is v
    assert DomainPadding((0.0,)).unpad(v, (6,)) is v
    assert _model(domain_padding=0.2, domain_padding_mode="one-sided")(torch.randn(1, 1, 9, 9)).shape[2:] == (9, 9)


def test_positions_have_their_boundaries():
    x = torch.zeros(2, 1, 4, 2)
    channels = GridEmbedding([[-1, 1], [0, 6]])(x)
    assert torch.equal(channels[0, 1, :, 0], torch.tensor([-1.0, -0.5, 0.0, 0.5]))
    assert torch.equal(channels[1, 2, 0], torch.tensor([0.0, 3.0]))
    waves = SinusoidalEmbedding(2, "nerf", grid_boundaries=[[0, 1], [0, 2]])(x)
    assert waves.shape == (2, 1 + 8, 4, 2)
    axis = torch.arange(4) / 4
    for channel, expected in enumerate([axis * math.pi, axis * 2 * math.pi]):
        torch.testing.assert_close(waves[0, 1 + 2 * channel, :, 0], expected.sin())
        torch.testing.assert_close(waves[0, 2 + 2 * channel, :, 0], expected.cos())


@pytest.mark.parametrize("model", [FNO, TFNO, SFNO])
def test_functions_and_modules_are_recorded_as_json_and_built_again(model, tmp_path):
    built = _model(
        model,
        non_linearity=torch.nn.functional.silu,
        positional_embedding=SinusoidalEmbedding(2, "transformer", 100, [[0, 1], [0, 2]]),
        norm="group_norm",
        resolution_scaling_factor=[(1, 2), (1, 1)],
        max_n_modes=(8, 8),
    )
    x = torch.randn(1, 1, 10, 12)
    again = build_model(model.__name__, json.loads(json.dumps(built.config)))
    assert again.config == built.config
    hw.save(built, tmp_path / "model.safetensors")
    assert torch.equal(hw.load(tmp_path / "model.safetensors")(x), built(x))


@pytest.mark.parametrize("layout", ["exact", "neuralop"])
@pytest.mark.parametrize("factorization", [None, "tucker", "cp"])
def test_lowered_modes_use_the_low_frequencies_of_the_weights(layout, factorization):
    """As if the others were zero: a dense model with those alone gives the same."""
    model = _model(max_n_modes=(10, 12), factorization=factorization, rank=0.5, layout=layout)
    x = torch.randn(2, 1, 16, 15)
    low = model(x)
    small = _model(layout=layout)
    small.load_state_dict(
        {**small.state_dict(), **{k: v for k, v in model.state_dict().items() if "conv.weight" not in k}}
    )
    for ours, theirs in zip(small.blocks, model.blocks, strict=True):
        ours.conv.weight.set_dense(theirs.conv.weight.dense()[:, :, 2:8, :4].detach())
    assert _relative(small(x), low) < 1e-5
    model.n_modes = (10, 12)
    assert _relative(model(x), low) > 1e-3
    model.n_modes = (6, 6)
    assert torch.equal(model(x), low)


def test_modes_rise_in_training_and_are_saved(tmp_path):
    model = _model(n_modes=(2, 2), max_n_modes=(6, 6))
    x = torch.randn(2, 1, 12, 12)
    model(x).square().mean().backward()
    gradient = model.blocks[0].conv.weight.weight.grad
    assert gradient[2:4, :2].abs().amax((2, 3, 4)).min() > 0
    assert gradient[[0, 1, 4, 5]].abs().max() == 0
    model.n_modes = (5, 6)
    assert model.n_modes == (5, 6)
    hw.save(model, tmp_path / "model.safetensors")
    again = hw.load(tmp_path / "model.safetensors")
    assert again.n_modes == (5, 6)
    assert again.config["max_n_modes"] == [6, 6]
    assert torch.equal(again(x), model(x))
    with pytest.raises(ValueError, match="must not pass max_n_modes"):
        model.n_modes = (7, 6)


def test_lowered_degrees_on_the_sphere():
    model = _model(SFNO, n_modes=(8, 12))
    x = torch.randn(2, 1, 12, 20)
    model.n_modes = (5, 6)
    small = _model(SFNO, n_modes=(5, 6))
    state = model.state_dict()
    small.load_state_dict({k: v[:5] if k.endswith("conv.weight.weight") else v for k, v in state.items()})
    assert _relative(model(x), small(x)) < 1e-6
    with pytest.raises(ValueError, match=r"must be \(degrees >= 1, twice the orders >= 2\), got \(4,\)"):
        model.n_modes = 4


def test_linear_outer_maps():
    model = _model(lifting_channel_ratio=0, projection_channel_ratio=0)
    assert [len(mlp.fcs) for mlp in (model.lifting, model.projection)] == [1, 1]
    x = torch.randn(2, 1, 8, 8)
    lifted = torch.einsum("oc,bcxy->boxy", model.lifting.fcs[0].weight, GridEmbedding()(x))
    torch.testing.assert_close(model.lifting(GridEmbedding()(x)), lifted + model.lifting.fcs[0].bias[:, None, None])
    assert float(hw.certify(model, x, "full", grid_samples=0).answer_bound.min()) > 0
