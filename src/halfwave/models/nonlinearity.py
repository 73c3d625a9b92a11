"""Nonlinearities by name: each as a differentiable function, as one that writes into given memory, and its derivative.

| name       | σ(x)                        |
| ---------- | --------------------------- |
| gelu       | x Φ(x), the exact one (compiled in half: within 2.5e-6, see `half_gelu`) |
| relu       | max(x, 0)                   |
| silu       | x / (1 + e^-x)              |
| tanh       | tanh x                      |
| sigmoid    | 1 / (1 + e^-x)              |
| elu        | x, or e^x - 1 below 0       |
| leaky_relu | x, or x / 100 below 0       |
| softplus   | log(1 + e^x), x above 20    |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from halfwave.models.half_gelu import half_gelu
from halfwave.numerics import Arithmetic, compiling, kind_of

Scratch = Callable[[], Tensor]


@dataclass(frozen=True)
class Nonlinearity:
    """σ, pointwise.

    Attributes:
        function: x to σ(x), differentiable in the ordinary way.
        into: (x, out) to σ(x) in `out`.
        gradient: (g, x, out, scratch) to g σ'(x) in `out`, which may be g; `scratch()` is memory of that shape.
        known_as: the functions of torch that are this one.
        module: the class of torch's layer of it, and its attributes for which it is.
        compiled_in_half: in the place of `function` in a compiled program of a CPU in a half format.
    """

    function: Callable[[Tensor], Tensor]
    into: Callable[[Tensor, Tensor], Tensor]
    gradient: Callable[[Tensor, Tensor, Tensor, Scratch], Tensor]
    known_as: tuple[Callable[..., Tensor], ...]
    module: tuple[type[nn.Module], Mapping[str, Any]]
    compiled_in_half: Callable[[Tensor], Tensor] | None = None

    def function_in(self, arith: Arithmetic, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The differentiable function, as it is quickest in this arithmetic."""
        in_half = compiling() and arith.format.half and kind_of(device) == "cpu"
        return self.compiled_in_half if in_half and self.compiled_in_half is not None else self.function


def _from_result(
    function: Callable[..., Tensor], backward: Callable[..., Tensor]
) -> Callable[[Tensor, Tensor, Tensor, Scratch], Tensor]:
    """The gradient where the derivative is one of the result, which is made again."""

    def gradient(grad: Tensor, x: Tensor, out: Tensor, scratch: Scratch) -> Tensor:
        return backward(grad, function(x, out=scratch()), grad_input=out)

    return gradient


_ATEN = torch.ops.aten
NONLINEARITIES: Mapping[str, Nonlinearity] = MappingProxyType(
    {
        "gelu": Nonlinearity(
            functional.gelu,
            lambda x, out: _ATEN.gelu.out(x, out=out),
            lambda g, x, out, _: _ATEN.gelu_backward.grad_input(g, x, grad_input=out),
            (functional.gelu,),
            (nn.GELU, {"approximate": "none"}),
            half_gelu,
        ),
        "relu": Nonlinearity(
            functional.relu,
            lambda x, out: torch.clamp(x, min=0, out=out),
            lambda g, x, out, _: _ATEN.threshold_backward.grad_input(g, x, 0, grad_input=out),
            (functional.relu, torch.relu),
            (nn.ReLU, {}),
        ),
        "silu": Nonlinearity(
            functional.silu,
            lambda x, out: _ATEN.silu.out(x, out=out),
            lambda g, x, out, _: _ATEN.silu_backward.grad_input(g, x, grad_input=out),
            (functional.silu,),
            (nn.SiLU, {}),
        ),
        "tanh": Nonlinearity(
            torch.tanh,
            lambda x, out: torch.tanh(x, out=out),
            _from_result(torch.tanh, _ATEN.tanh_backward.grad_input),
            (torch.tanh, functional.tanh),
            (nn.Tanh, {}),
        ),
        "sigmoid": Nonlinearity(
            torch.sigmoid,
            lambda x, out: torch.sigmoid(x, out=out),
            _from_result(torch.sigmoid, _ATEN.sigmoid_backward.grad_input),
            (torch.sigmoid, functional.sigmoid),
            (nn.Sigmoid, {}),
        ),
        "elu": Nonlinearity(
            functional.elu,
            lambda x, out: _ATEN.elu.out(x, out=out),
            lambda g, x, out, _: _ATEN.elu_backward.grad_input(g, 1.0, 1.0, 1.0, False, x, grad_input=out),
            (functional.elu,),
            (nn.ELU, {"alpha": 1.0}),
        ),
        "leaky_relu": Nonlinearity(
            functional.leaky_relu,
            lambda x, out: _ATEN.leaky_relu.out(x, out=out),
            lambda g, x, out, _: _ATEN.leaky_relu_backward.grad_input(g, x, 0.01, False, grad_input=out),
            (functional.leaky_relu,),
            (nn.LeakyReLU, {"negative_slope": 0.01}),
        ),
        "softplus": Nonlinearity(
            functional.softplus,
            lambda x, out: _ATEN.softplus.out(x, out=out),
            lambda g, x, out, _: _ATEN.softplus_backward.grad_input(g, x, 1, 20, grad_input=out),
            (functional.softplus,),
            (nn.Softplus, {"beta": 1, "threshold": 20}),
        ),
    }
)


def nonlinearity_name(given: Any) -> str:
    """The name of a nonlinearity: the name itself, or torch's function or layer of it; ValueError for another."""
    if isinstance(given, str) and given in NONLINEARITIES:
        return given
    for name, known in NONLINEARITIES.items():
        kind, settings = known.module
        same_layer = type(given) is kind and all(getattr(given, key) == value for key, value in settings.items())
        if same_layer or any(given is function for function in known.known_as):
            return name
    names = ", ".join(NONLINEARITIES)
    raise ValueError(f"unknown non_linearity {_describe(given)}: expected one of {names}, or torch's function of it")


def _describe(given: Any) -> str:
    """One line, without an address in memory."""
    if isinstance(given, (str, nn.Module)):
        return " ".join(repr(given).split())
    return str(getattr(given, "__name__", type(given).__name__))
