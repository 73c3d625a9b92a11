"""The U-Net: against torch's own layers, under every policy, on every grid."""

import pytest
import torch
from torch import nn

from halfwave.models import UNet, build_model, set_precision
from halfwave.models.convolution import Convolution
from halfwave.models.normalization import NormActivation
from halfwave.precision import Policy
from halfwave.recipes import get_recipe


def _model(**options):
    torch.manual_seed(0)
    return UNet(1, 1, **{"hidden_channels": 4, "n_levels": 2, **options})


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _in_torch(model, x):
    """The same network written with torch's layers."""

    def double(part, v):
        for layer in part:
            if isinstance(layer, NormActivation):
                v = nn.functional.gelu(nn.functional.group_norm(v, layer.groups, layer.weight, layer.bias))
            else:
                v = nn.functional.conv2d(v, layer.weight, layer.bias, padding="same")
        return v

    v, skips = double(model.first, x), []
    for down in model.down:
        skips.append(v)
        v = double(down, nn.functional.max_pool2d(v, 2))
    for up, merge in zip(reversed(model.up), reversed(model.merge), strict=True):
        v = nn.functional.conv_transpose2d(v, up.weight, up.bias, stride=2)
        v = double(merge, torch.cat([skips.pop(), v], dim=1))
    return nn.functional.conv2d(v, model.head.weight, model.head.bias)


@pytest.mark.parametrize("budget", [1, 1 << 22])
def test_equals_torchs_layers_in_value_and_gradient(monkeypatch, budget):
    """Sample by sample and in one piece."""
    monkeypatch.setattr("halfwave.spectral.slicing.slices.__defaults__", (budget,))
    model = _model()
    x = torch.randn(3, 1, 16, 12)
    out, expected = model(x), _in_torch(model, x)
    assert _relative(out, expected) < 1e-5
    parameters = list(model.parameters())
    found = torch.autograd.grad(out.square().mean(), parameters)
    for ours, theirs in zip(found, torch.autograd.grad(expected.square().mean(), parameters), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("non_linearity", ["gelu", "relu"])
def test_gradcheck(non_linearity):
    model = _model(n_levels=1, non_linearity=non_linearity).double()
    set_precision(model, Policy.uniform("fp64"))
    x = torch.randn(2, 1, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: model(x), (x, *model.parameters()), fast_mode=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.03), ("fp16", 0.004)])
def test_mixed_is_amp_and_half_is_full(dtype, tolerance):
    """The spectral roles have nothing to act on; the pointwise one rounds by a few unit roundoffs."""
    model, x = _model(), torch.randn(2, 1, 16, 16)
    out = {}
    for name in ("full", "half", "amp", "mixed"):
        model.set_precision(Policy.named(name, dtype=dtype))
        out[name] = model(x)
    assert torch.equal(out["half"], out["full"])
    assert torch.equal(out["mixed"], out["amp"])
    assert 0 < _relative(out["amp"], out["full"]) < tolerance


def test_every_stage_and_every_saved_field_is_in_the_format():
    model = _model(precision=Policy.named("amp", dtype="fp16"))
    seen, saved = {}, []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out.dtype}))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        model(torch.randn(1, 1, 16, 16))
    assert {dtype for name, dtype in seen.items() if name} == {torch.float16}
    assert seen[""] is torch.float32
    own = {p.data_ptr() for p in model.parameters()}
    kept = [t for t in saved if t.data_ptr() not in own and t.is_floating_point() and t.shape[1] > 1]
    assert {t.dtype for t in kept} == {torch.float16}


def test_statistics_do_not_overflow_in_fp16():
    """The squares of 1000 are past the largest fp16 number."""
    norm = NormActivation(8, "relu", precision=Policy.named("amp", dtype="fp16"))
    x = (1000 * torch.randn(2, 8, 32, 32)).half()
    expected = nn.functional.relu(nn.functional.group_norm(x.float(), 8))
    assert _relative(norm(x).float(), expected) < 1e-3


@pytest.mark.parametrize("grid", [(16, 16), (17, 30), (5, 64), (1, 3)])
def test_any_grid(grid):
    assert _model()(torch.randn(2, 1, *grid)).shape == (2, 1, *grid)


def test_padding_leaves_a_multiple_alone_and_repeats_edges():
    """A padded field and the same field with its edges repeated by hand give the same answer where both exist."""
    model, x = _model(), torch.randn(1, 1, 14, 16)
    by_hand = torch.cat([x, x[..., -1:, :].expand(-1, -1, 2, -1)], dim=2)
    assert torch.equal(model(x), model(by_hand)[..., :14, :])


def test_convolution_gradients_in_half_are_near_full():
    torch.manual_seed(0)
    conv, x = Convolution(3, 5), torch.randn(4, 3, 12, 12)
    gradients = []
    for name in ("full", "amp"):
        conv.set_precision(Policy.named(name, dtype="bf16"))
        gradients.append(torch.autograd.grad(conv(x).float().square().sum(), list(conv.parameters())))
    for full, half in zip(*gradients, strict=True):
        assert 0 < _relative(half, full) < 0.02


def test_recipe_builds():
    recipe = get_recipe("darcy-unet")
    model = build_model(recipe.model, {**recipe.arguments, "in_channels": 1, "out_channels": 1})
    assert model(torch.randn(1, 1, 32, 32)).shape == (1, 1, 32, 32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: UNet(1, 1, 0), "hidden_channels must be a positive integer, got 0"),
        (lambda: UNet(1, 1, 4, 0), "n_levels must be a positive integer, got 0"),
        (lambda: UNet(1, 1, 4, non_linearity="swish"), "unknown non_linearity 'swish': expected one of gelu, relu"),
        (lambda: _model()(torch.ones(1, 2, 8, 8)), r"expected input \(batch, 1, 2 grid axes\)"),
        (lambda: _model(precision=Policy.block("HHF")), "a U-Net has no spectral stages"),
        (lambda: set_precision(_model(), Policy.block("FHF")), "a U-Net has no spectral stages"),
        (lambda: build_model("UNet", {"in_channels": 1, "out_channels": 1, "n_modes": [4, 4]}), "UNet: .*n_modes"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
