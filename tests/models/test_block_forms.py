"""Blocks in all their forms (nonlinearities, norms, preactivation, dropout): values and derivatives."""

from itertools import product

import pytest
import torch
from torch import nn

import halfwave as hw
from halfwave.models import FNO, SFNO, pointwise
from halfwave.models.block import block_network
from halfwave.models.field_norm import AdaptiveNorm
from halfwave.models.nonlinearity import NONLINEARITIES, nonlinearity_name
from halfwave.models.normalization import NormActivation
from halfwave.models.pointwise import ChannelMLP, apply_pointwise, apply_whole
from halfwave.numerics import arithmetic_of
from halfwave.precision import Policy

FORMS = [
    {"norm": norm, "preactivation": before, "use_channel_mlp": mlp, "non_linearity": sigma}
    for (norm, before), (mlp, sigma) in product(
        product(("group_norm", "instance_norm", None), (True, False)), ((True, "silu"), (False, "gelu"))
    )
]


def _model(**options):
    torch.manual_seed(0)
    return FNO((4, 4), 1, 1, 6, n_layers=2, **options)


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_every_nonlinearity_has_autograd_s_value_and_derivative(name, monkeypatch):
    """In slices, into given memory, and with several steps after each other."""
    monkeypatch.setattr(pointwise, "SLICE_ELEMENTS", 16 * 16)
    torch.manual_seed(0)
    network, arith = block_network(("linear", "soft-gating"), True, True, name), arithmetic_of("fp64", "cpu")
    shapes = [(3, 6, 50)] * 2 + [(6, 6), (5, 6), (5,), (6, 5), (6,), (6,)]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    ours, whole = apply_pointwise(network, tensors[:2], tensors[2:], arith), apply_whole(network, arith, *tensors)
    torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-12)
    grad = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, tensors, grad), torch.autograd.grad(whole, tensors, grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_a_nonlinearity_is_torch_s_of_that_name(name):
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)
    torch_s = getattr(nn.functional, name)(x)
    torch.testing.assert_close(NONLINEARITIES[name].function(x), torch_s)
    torch.testing.assert_close(NONLINEARITIES[name].into(x, torch.empty_like(x)), torch_s)
    assert nonlinearity_name(getattr(nn.functional, name)) == name


@pytest.mark.parametrize("form", FORMS)
def test_first_and_second_derivatives_of_every_form(form):
    model = _model(**form).double()
    x = torch.randn(2, 1, 6, 5, dtype=torch.float64, requires_grad=True)
    parameters = tuple(model.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: model(x), (x, *parameters), fast_mode=True)
    assert torch.autograd.gradgradcheck(model, (x,), fast_mode=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_form_in_half_precision_stays_near_full(form, dtype):
    model, x = _model(**form, precision=Policy.named("mixed", dtype)), torch.randn(2, 1, 12, 10)
    found = model(x)
    found.square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    hw.set_precision(model, "full")
    assert 0 < _relative(found, model(x)) < 0.05


@pytest.mark.parametrize("form", [{"preactivation": True, "norm": "group_norm"}, {"non_linearity": "silu"}, {}])
def test_dropout_drops_the_same_in_the_backward_pass(form, monkeypatch):
    monkeypatch.setattr(pointwise, "SLICE_ELEMENTS", 16 * 16)
    model = _model(channel_mlp_dropout=0.3, **form).double()
    x = torch.randn(2, 1, 8, 9, dtype=torch.float64, requires_grad=True)

    def seeded(x, *_):
        torch.manual_seed(3)
        return model(x)

    assert torch.autograd.gradcheck(seeded, (x, *model.parameters()), fast_mode=True)
    assert torch.autograd.gradgradcheck(seeded, (x,), fast_mode=True)


def test_dropout_keeps_the_mean_and_rests_in_evaluation():
    torch.manual_seed(0)
    model, x = _model(channel_mlp_dropout=0.25), torch.randn(1, 1, 8, 8)
    assert not torch.equal(model(x), _model()(x))
    assert torch.equal(model.eval()(x), _model()(x))
    mlp = ChannelMLP(4, 8, 4)
    network = block_network((None, None), True, False, dropout=0.25)
    y = torch.randn(1, 4, 40_000)
    masks = [torch.rand(1, width, 40_000) >= 0.25 for width in (8, 4)]
    dropped = apply_pointwise(network, [y, *masks], mlp.parameter_list(), arithmetic_of("fp32", "cpu"))
    assert _relative(dropped.mean(2), mlp(y).mean(2)) < 0.1
    assert 0.24 < (dropped == 0).float().mean() < 0.26


def test_the_block_with_norms_is_what_its_formula_says():
    """σ(N(MLP(σ(N K v + W v)) + g v)) and MLP(N(σ(K u + W u))) + g u with u = N(σ(v)), by torch's own layers."""
    for preactivation in (False, True):
        model = _model(norm="group_norm", preactivation=preactivation, non_linearity="relu").double()
        block = model.blocks[0]
        with torch.no_grad():
            for parameter in block.norms.parameters():
                parameter.add_(torch.randn_like(parameter))
        norms = [lambda v, n=n: nn.functional.group_norm(v, 1, n.weight, n.bias) for n in block.norms]
        v = torch.randn(2, 6, 8, 8, dtype=torch.float64)
        skip = lambda v: torch.einsum("oc,bcxy->boxy", block.skip.weight, v)  # noqa: B023, E731
        gate = block.mlp_skip.weight[:, None, None]
        if preactivation:
            u = norms[0](v.relu())
            expected = block.mlp(norms[1]((block.conv(u) + skip(u)).relu())) + gate * u
        else:
            inner = (norms[0](block.conv(v)) + skip(v)).relu()
            expected = norms[1](block.mlp(inner) + gate * v).relu()
        torch.testing.assert_close(block(v), expected, rtol=1e-10, atol=1e-10)


def test_adaptive_norms_follow_their_embedding():
    model = _model(norm="ada_in", ada_in_features=3)
    x = torch.randn(2, 1, 8, 8)
    with pytest.raises(ValueError, match="no embedding yet"):
        model(x)
    model.set_ada_in_embeddings(torch.zeros(3))
    first = model(x)
    first.square().mean().backward()
    assert all(p.grad is not None for p in model.blocks.parameters())
    model.set_ada_in_embeddings(*torch.randn(4, 3))
    assert _relative(model(x), first) > 1e-3
    norm = AdaptiveNorm(3, 6)
    norm.set_embedding(torch.randn(3))
    scale, shift = norm.mlp(norm.embedding).chunk(2)
    v = torch.randn(2, 6, 9)
    torch.testing.assert_close(norm(v), nn.functional.instance_norm(v) * scale[:, None] + shift[:, None])
    with pytest.raises(ValueError, match="one embedding, or 4"):
        model.set_ada_in_embeddings(*torch.randn(3, 3))
    with pytest.raises(ValueError, match="this model has norm None"):
        _model().set_ada_in_embeddings(torch.zeros(3))


def test_an_instance_norm_has_no_parameters_and_follows_the_dtype():
    norm = NormActivation(5, None, groups=5, affine=False)
    assert not list(norm.parameters())
    assert not norm.state_dict()
    x = 100 + torch.randn(2, 5, 40, dtype=torch.float64)
    torch.testing.assert_close(norm.double()(x), nn.functional.instance_norm(x), rtol=1e-12, atol=1e-10)


def test_a_form_with_norms_compiles_in_one_graph():
    torch._dynamo.reset()
    model, x = FNO((4, 4), 1, 1, 4, n_layers=1, norm="instance_norm", preactivation=True), torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "batch_norm"}, "unknown norm 'batch_norm'"),
        ({"norm": "ada_in"}, "ada_in_features belongs to norm 'ada_in': got None"),
        ({"ada_in_features": 3}, "ada_in_features belongs to norm 'ada_in'"),
        ({"non_linearity": "swish"}, "unknown non_linearity 'swish': expected one of gelu, relu, silu"),
        ({"non_linearity": torch.sin}, "unknown non_linearity sin"),
        ({"channel_mlp_dropout": 1.0}, "channel_mlp_dropout must be a probability below 1, got 1.0"),
        ({"complex_data": True}, "complex_data=True is not supported"),
    ],
)
@pytest.mark.parametrize("model", [FNO, SFNO])
def test_bad_options_raise(model, options, message):
    with pytest.raises(ValueError, match=message):
        model((4, 4), 1, 1, 4, **options)
