"""Which dtype a model computes and answers in: the policy and the weights decide, and nothing around them."""

import copy

import float64_references
import pytest
import torch
from small_models import batch, build

import halfwave as hw
from halfwave.measure.ranges import is_spectral, watch_stages
from halfwave.models import MODELS
from halfwave.models.block import FNOBlock
from halfwave.models.convolution import Convolution
from halfwave.models.graph import build_graph
from halfwave.models.graph_kernel import GraphKernel
from halfwave.models.normalization import NormActivation
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.sinusoidal import CoordinateEmbedding
from halfwave.precision import NAMES, Policy
from halfwave.spectral import SpectralConv

FIELDS = [name for name in MODELS if name != "GINO"]
HALVES = [torch.float16, torch.bfloat16]


def _relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def _grids():
    """Models of fields in every dimension, an input, and the same written in float64."""
    torch.manual_seed(0)
    fno = float64_references.fno
    yield "FNO-1d", hw.FNO((6,), 2, 1, 6, 2), torch.randn(3, 2, 21), fno
    yield "FNO-1d-fft", hw.FNO((6,), 2, 1, 6, 2, backend="fft"), torch.randn(3, 2, 16), fno
    yield "FNO-2d", hw.FNO((6, 5), 1, 2, 6, 2), torch.randn(2, 1, 16, 11), fno
    yield "FNO-3d", hw.FNO((4, 4, 5), 1, 1, 5, 2), torch.randn(2, 1, 8, 9, 10), fno
    yield "TFNO", hw.TFNO((6, 6), 1, 1, 6, 2, rank=0.5), torch.randn(2, 1, 16, 12), fno
    yield "TFNO-dense", hw.TFNO((6, 6), 1, 1, 6, 2, rank=0.5, implementation="reconstructed"), _field(), fno
    yield "SFNO", hw.SFNO((6, 8), 1, 1, 6, 2), torch.randn(2, 1, 9, 18), float64_references.sfno
    yield "UNet", hw.UNet(1, 1, 4, 2), torch.randn(2, 1, 16, 12), float64_references.unet


def _field():
    return torch.randn(2, 1, 16, 12)


@pytest.mark.parametrize(("model", "x", "reference"), [pytest.param(*case, id=name) for name, *case in _grids()])
def test_double_equals_float64(model, x, reference):
    """After `double()`, and as `precision="double"` on fp32 weights; inputs in fp32, as they come from a file."""
    model = copy.deepcopy(model)
    expected = reference(model, x)
    assert _relative(model(x), expected) > 1e-9
    for convert in (lambda m: hw.set_precision(m, "double"), lambda m: m.double(), lambda m: m.set_precision("full")):
        convert(model)
        out = model(x)
        assert out.dtype is torch.float64
        assert _relative(out, expected) < 1e-12


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_double_gino_equals_float64(reduction):
    model, given = build("GINO", out_gno_reduction=reduction), batch("GINO")
    points, latent, queries, x, features = given.arguments
    one = (points[:30], latent, queries[:9], x[:30], features[0])
    expected = float64_references.gino(model, *one)
    called = [t if i == 1 else t.unsqueeze(0) for i, t in enumerate(one)]
    assert _relative(model(*called)[0], expected) < 1e-5
    assert _relative(model.double()(*called)[0], expected) < 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_mixed_with_double_weights_is_half_in_the_half_roles_alone(name):
    """Spectral stages in fp16, all the rest in fp64, and the answer in fp64."""
    model, given = build(name, precision=Policy.named("half", "fp16")).double(), batch(name)
    seen = {}
    for label, module in model.named_modules():
        if is_spectral(module):
            watch_stages(module, lambda stage, out: seen.update({stage: out.dtype}))
        elif label and hasattr(module, "policy"):
            module.register_forward_hook(lambda m, i, out: seen.update({"pointwise": out.dtype}))
    assert given.ask(model).dtype is torch.float64
    spectral = {} if name == "UNet" else dict.fromkeys(
        ("forward_transform", "contraction", "inverse_transform"), torch.float16
    )  # fmt: skip
    assert seen == {"pointwise": torch.float64, **spectral}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_half_weights_compute_and_answer_in_their_dtype(name, dtype):
    """The function of the rounded weights, to the roundoff of the format; gradients reach the weights."""
    model, given = build(name), batch(name)
    rounded = copy.deepcopy(model).to(dtype)
    model.load_state_dict(rounded.state_dict())
    out, expected = given.ask(rounded), given.ask(model)
    assert out.dtype is dtype
    assert 0 < _relative(out, expected) < 30 * torch.finfo(dtype).eps
    out.float().square().mean().backward()
    assert all(p.grad.dtype is dtype and p.grad.isfinite().all() for p in rounded.parameters())
    hw.set_precision(rounded, "double")
    assert given.ask(rounded).dtype is torch.float64


@pytest.mark.parametrize("name", FIELDS)
def test_the_dtype_of_the_input_is_not_that_of_the_coordinates(name):
    """An fp16 input is a field of fp16 numbers: what is appended to it stays fp32, and fp64 in double."""
    [x] = batch(name).arguments
    model = build(name)
    for dtype in (*HALVES, torch.float64):
        given = x.half().to(dtype)
        assert torch.equal(model(given), model(given.float()))
    wide = model.double()
    assert torch.equal(wide(x), wide(x.double()))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("policy", [*NAMES, "double"])
def test_autocast_changes_nothing(name, policy):
    """Bit for bit, with gradients on and off."""
    model, given = build(name, precision=policy), batch(name)
    expected = given.ask(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")
        out = given.ask(model)
        with torch.no_grad():
            assert torch.equal(given.ask(model), expected)
    assert out.dtype is expected.dtype
    assert torch.equal(out, expected)


def _layers():
    torch.manual_seed(0)
    x, points = torch.randn(2, 4, 8, 8), torch.rand(20, 3)
    yield "SpectralConv", SpectralConv(4, 4, (4, 4)), (x,)
    yield "ChannelMLP", ChannelMLP(4, 8, 4), (x,)
    yield "FNOBlock", FNOBlock(SpectralConv(4, 4, (4, 4))), (x,)
    yield "Convolution", Convolution(4, 4), (x,)
    yield "NormActivation", NormActivation(4), (x,)
    kernel = GraphKernel(4, 4, CoordinateEmbedding(3, "transformer", 4, 10000), (8,))
    yield "GraphKernel", kernel, (build_graph(points, points, 0.5), points, points, torch.randn(20, 1, 4))


@pytest.mark.parametrize(("layer", "arguments"), [pytest.param(*case, id=name) for name, *case in _layers()])
def test_autocast_changes_no_single_layer(layer, arguments):
    expected = layer(*arguments)
    with torch.autocast("cpu", torch.float16):
        assert torch.equal(layer(*arguments), expected)
    layer.double()
    assert layer(*arguments).dtype is torch.float64


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_converted_weights_are_saved_and_loaded_in_their_dtype(tmp_path, dtype):
    model, given = build("FNO").to(dtype), batch("FNO")
    hw.save(model, tmp_path / "model.safetensors")
    again = hw.load(tmp_path / "model.safetensors")
    assert {p.dtype for p in again.parameters()} == {dtype}
    assert torch.equal(given.ask(again), given.ask(model))
