"""The FNO: its gradient against float64, its policies, its grids."""

import pytest
import torch

import halfwave as hw
from halfwave.models import FNO, build_model, set_precision
from halfwave.numerics import cpu_multiplies
from halfwave.precision import Policy

pytestmark = pytest.mark.hardware


def _model(**options):
    torch.manual_seed(0)
    return FNO((6, 6), 1, 1, 8, **{"n_layers": 2, **options})


def test_gradients_are_those_of_float64():
    """Recomputation in slices changes nothing: every parameter's gradient agrees with plain double precision."""
    model = _model()
    x = torch.randn(3, 1, 20, 17)
    model(x).square().mean().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.double().zero_grad()
    set_precision(model, Policy.uniform("fp64"))
    model(x.double()).square().mean().backward()
    for gradient, p in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(gradient.double(), p.grad, rtol=1e-4, atol=1e-6)


def test_gradcheck():
    model = _model(n_layers=1).double()
    set_precision(model, Policy.uniform("fp64"))
    x = torch.randn(1, 1, 6, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: model(x), (x, *model.parameters()), fast_mode=True)


def test_slices_equal_one_piece(monkeypatch):
    model = _model()
    x = torch.randn(3, 1, 24, 24)
    whole = model(x)
    monkeypatch.setattr("halfwave.models.pointwise.SLICE_ELEMENTS", 16 * 50)
    monkeypatch.setattr("halfwave.spectral.slicing.slices.__defaults__", (2000,))
    torch.testing.assert_close(model(x), whole, rtol=1e-5, atol=1e-6)


def test_set_precision_at_run_time_changes_every_layer_and_back():
    model = _model()
    x = torch.randn(2, 1, 16, 16)
    full = model(x)
    hw.set_precision(model, "mixed")
    assert all(m.policy.name == "mixed" for m in model.modules() if hasattr(m, "policy"))
    assert 1e-5 < ((model(x) - full).norm() / full.norm()).item() < 0.05
    hw.set_precision(model, "full")
    assert torch.equal(model(x), full)


@pytest.mark.parametrize(("modes", "grid"), [((4,), (13,)), ((4, 6), (9, 31)), ((2, 4, 4), (5, 8, 6))])
def test_any_grid_in_one_two_three_dimensions(modes, grid):
    model = FNO(modes, 2, 3, 6, n_layers=2, domain_padding=0.1)
    assert model(torch.randn(2, 2, *grid)).shape == (2, 3, *grid)


_SMALL = {"n_modes": [4], "in_channels": 1, "out_channels": 1, "hidden_channels": 2}


def test_config_builds_the_same_model_again():
    model = _model(fno_skip="identity", channel_mlp_expansion=None, domain_padding=[0.1, 0.2])
    again = build_model("FNO", model.config)
    again.load_state_dict(model.state_dict())
    x = torch.randn(1, 1, 12, 12)
    assert torch.equal(again(x), model(x))


@pytest.mark.parametrize("kind", ["cp", "tucker", "tt", None])
def test_settings_of_the_contraction_reach_every_layer_and_the_config(kind):
    """The same model whatever the order, the option of the paper and the limit; all of them are in its config."""
    plain = _model(factorization=kind, rank=0.5)
    settings = {"contraction": "memory", "complex_mode": "B", "memory_limit": 10**6}
    model = _model(factorization=kind, rank=0.5, **settings)
    again = build_model("FNO", model.config)
    assert {name: again.config[name] for name in settings} == settings
    assert all(block.conv.weight.settings.memory_limit == 10**6 for block in again.blocks)
    again.load_state_dict(plain.state_dict())
    x = torch.randn(2, 1, 16, 16)
    torch.testing.assert_close(again(x), plain(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="memory_limit of 1000 bytes cannot be held"):
        _model(factorization=kind, rank=0.5, memory_limit=1000)(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FNO((4, 4), 1, 1, 8, complex_mode="D"), "unknown complex_mode 'D': expected one of A, B, C"),
        (lambda: FNO((4, 4), 1, 1, 8, contraction="time"), "unknown objective 'time': expected one of memory, flops"),
        (lambda: FNO((4, 4), 1, 1, 8, fno_skip="dense"), "unknown skip 'dense'"),
        (lambda: FNO((4, 4), 1, 1, 0), "hidden_channels must be a positive integer, got 0"),
        (lambda: FNO((4, 4), 1, 1, 8, positional_embedding="rope"), "unknown positional_embedding 'rope'"),
        (lambda: FNO((4, 4), 1, 1, 8, domain_padding=[0.1]), "domain_padding must be"),
        (lambda: FNO((4, 4), 1, 1, 8)(torch.ones(1, 2, 8, 8)), r"expected input \(batch, 1, 2 grid axes\)"),
        (lambda: build_model("FNN", {}), "unknown model 'FNN': expected one of FNO"),
        (lambda: build_model("FNO", {**_SMALL, "width": 3}), "FNO: .*width"),
        (lambda: set_precision(torch.nn.Linear(1, 1), "full"), "no layer that honours a precision policy"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_native_half_arithmetic(dtype):
    """What a device with half-precision products runs: operands and results of every product in the format."""
    model = _model(precision=Policy.named("mixed", dtype=dtype))
    x = torch.randn(2, 1, 16, 16)
    with cpu_multiplies(dtype):
        assert "(native)" in repr(model)
        mixed = model(x)
        mixed.square().mean().backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    set_precision(model, "full")
    full = model(x)
    full.square().mean().backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert ((mixed - full).norm() / full.norm()).item() < 0.03
    assert ((gradient - expected).norm() / expected.norm()).item() < 0.03
