"""What is given to a model: the right result, or one line that says what it was."""

import numpy as np
import pytest
import torch
from small_models import batch, build

from halfwave.models import FNO, MODELS
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv

FIELDS = [name for name in MODELS if name != "GINO"]
BAD = {
    "complex": (lambda x: x + 0j, TypeError, "expected real input, got torch.complex64"),
    "numpy": (lambda x: x.numpy(), TypeError, "torch.from_numpy.*got ndarray"),
    "list": (lambda x: x.tolist(), TypeError, "expected input to be a torch.Tensor, got list"),
    "integers": (lambda x: x.long(), TypeError, r"expected floating-point input, got torch.int64.*\.float\(\)"),
    "axes": (lambda x: x[0], ValueError, r"expected input \(batch, 1, (2 grid axes|latitudes, .*)\), got \(1, "),
    "channels": (lambda x: x.expand(-1, 3, -1, -1), ValueError, r"expected input \(batch, 1, .*\), got \(2, 3, "),
    "no points": (lambda x: x[..., :0], ValueError, r"at least one point on every grid axis, got \(2, 1, \d+, 0\)"),
    "device": (lambda x: x.to("meta"), ValueError, "input is on meta and the weights are on cpu"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", [*FIELDS, "SpectralConv"])
def test_what_is_no_field_is_refused_in_one_line(name, kind):
    model = SpectralConv(1, 1, (4, 4)) if name == "SpectralConv" else build(name)
    [x] = batch("FNO" if name == "SpectralConv" else name).arguments
    make, error, message = BAD[kind]
    with pytest.raises(error, match=message) as caught:
        model(make(x))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "make", "error", "message"),
    [
        (0, lambda t: t.numpy(), TypeError, "expected input_geom to be a torch.Tensor"),
        (1, lambda t: t.to("meta"), ValueError, "latent_queries is on meta"),
        (2, lambda t: t[:, :, :0], ValueError, "expected output_queries"),
        (3, lambda t: t + 0j, TypeError, "expected real x, got torch.complex64"),
        (3, lambda t: t.int(), TypeError, "expected floating-point x, got torch.int32"),
        (4, lambda t: np.asarray(t), TypeError, "expected latent_features to be a torch.Tensor"),
    ],
)
def test_what_is_no_cloud_is_refused_in_one_line(place, make, error, message):
    arguments = _one_geometry()
    arguments[place] = make(arguments[place])
    with pytest.raises(error, match=message) as caught:
        build("GINO")(*arguments)
    assert "\n" not in str(caught.value)


def _one_geometry(functions=1):
    points, latent, queries, x, features = batch("GINO").arguments
    return [points[None], latent[None], queries[None], x.expand(functions, -1, -1), features[:1]]


@pytest.mark.parametrize("policy", [Policy.named("full"), Policy.named("mixed", "fp16")], ids=lambda p: p.name)
@pytest.mark.parametrize("grid", [(16, 32), (192, 384)], ids=str)
@pytest.mark.parametrize("name", FIELDS)
def test_an_empty_batch_gives_an_empty_answer(name, grid, policy, monkeypatch):
    """Forward and backward: a share of a batch may be empty. Two threads cut a large grid in another way than one."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model = build(name, precision=policy)
    x = torch.empty(0, 1, *grid, requires_grad=True)
    out = model(x)
    assert out.shape == (0, 1, *grid)
    assert out.dtype is torch.float32
    out.sum().backward()
    assert x.grad.shape == x.shape
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("features", [0, 1])
def test_an_empty_batch_of_functions_on_a_cloud(features):
    *arguments, given = _one_geometry(functions=0)
    assert build("GINO")(*arguments, given[:features]).shape == (0, 29, 2)


@pytest.mark.parametrize("name", FIELDS)
def test_channels_last_is_another_order_of_the_same_numbers(name):
    """Of the input, and of the model, whose spectral weights are no images; values and gradients."""
    torch.manual_seed(0)
    model = build(name, in_channels=3).double()
    x = torch.randn(2, 3, 8, 16, dtype=torch.float64)
    expected, wanted = _answer_and_gradients(model, x)
    moved = model.to(memory_format=torch.channels_last)
    for given in (x, x.to(memory_format=torch.channels_last)):
        out, gradients = _answer_and_gradients(moved, given)
        torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(gradients, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("modes", "order"), [((4,), torch.channels_last), ((3, 3, 3), torch.channels_last_3d)])
def test_spectral_weights_keep_their_order(modes, order):
    """(K, C, 2, O) of one dimension has four axes, and is no image either."""
    model = FNO(modes, 1, 1, 4, 1)
    x = torch.randn(2, 1, *[8] * len(modes))
    expected = model(x)
    assert torch.equal(model.to(memory_format=order)(x), expected)
    assert model.blocks[0].conv.weight.weight.is_contiguous()


def _answer_and_gradients(model, x):
    model.zero_grad()
    x = x.detach().requires_grad_()
    out = model(x)
    out.square().sum().backward()
    return out, [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
