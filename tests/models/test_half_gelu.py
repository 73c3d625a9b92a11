"""GELU of compiled programs in half: polynomials against the error function in float64, and who takes them."""

import math

import pytest
import torch
from torch.nn import functional

from halfwave.models.half_gelu import half_gelu
from halfwave.models.nonlinearity import NONLINEARITIES
from halfwave.numerics import arithmetic_of, compile_options

_CPU = torch.device("cpu")


def _truth(x):
    """(gelu, its derivative) in float64; erfc has the digits of the far left, which 1 + erf loses."""
    x = x.double()
    phi = 0.5 * torch.special.erfc(-x / math.sqrt(2))
    return x * phi, phi + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("compiled", [False, True])
def test_within_what_is_said_of_value_and_derivative(compiled):
    inside = torch.linspace(-5.5, 5.5, 40_001)
    outside = torch.tensor([6.0, 30.0, 4e3, 6e4])
    x = torch.cat([inside, outside, -outside]).requires_grad_()
    gelu = torch.compile(half_gelu, options=compile_options()) if compiled else half_gelu
    y = gelu(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    value, derivative = _truth(x.detach())
    near = x.abs() <= 5.5
    assert (y - value)[near].abs().max() < 2.5e-6 + 5.5e-7
    assert ((y - value) / x)[~near].abs().max() < 1e-7
    assert (slope - derivative).abs().max() < 8e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounds_nearly_always_as_the_exact_one(dtype):
    """Either is a float's rounding away from the truth; they differ where the truth lies between two numbers."""
    x = torch.linspace(-4, 8, 20_001).to(dtype)
    truth, found, exact = _truth(x)[0], half_gelu(x), functional.gelu(x)
    assert found.dtype is dtype
    assert (found.double() - truth).abs().max() < 1.05 * (exact.double() - truth).abs().max()


def test_derivatives_of_derivatives_are_the_exact_one_s():
    x = torch.linspace(-3, 3, 101).requires_grad_()
    second = []
    for gelu in (half_gelu, functional.gelu):
        (slope,) = torch.autograd.grad(gelu(x).sum(), x, create_graph=True)
        second.append(torch.autograd.grad(slope.sum(), x)[0])
    assert torch.equal(*second)
    assert torch.equal(torch.func.vmap(half_gelu)(x), functional.gelu(x))


@pytest.mark.parametrize("name", list(NONLINEARITIES))
@pytest.mark.parametrize("form", ["fp32", "bf16", "fp16"])
def test_eager_programs_take_the_exact_one(name, form):
    sigma = NONLINEARITIES[name]
    assert sigma.function_in(arithmetic_of(form, "cpu"), _CPU) is sigma.function


def test_only_compiled_half_on_a_cpu_takes_polynomials(monkeypatch):
    sigma = NONLINEARITIES["gelu"]
    monkeypatch.setattr("halfwave.models.nonlinearity.compiling", lambda: True)
    taken = {
        (form, kind): sigma.function_in(arithmetic_of(form, "cpu"), torch.device(kind))
        for form in ("fp32", "bf16", "fp16")
        for kind in ("cpu", "cuda")
    }
    assert {key for key, function in taken.items() if function is half_gelu} == {("bf16", "cpu"), ("fp16", "cpu")}


def test_what_the_compiler_is_told_it_knows():
    """A setting that a later torch does not have is left out; of this one's nothing is."""
    from torch._inductor import config

    options = compile_options()
    assert options == {"emulate_precision_casts": True, "cpp.enable_floating_point_contract_flag": "fast"}
    with config.patch(options):
        assert config.emulate_precision_casts
