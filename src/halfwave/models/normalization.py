"""GroupNorm and the nonlinearity after it, with statistics in fp32 whatever the format of the fields.

Half-precision sums of squares over a grid would overflow (fp16) or stagnate (bf16); so the mean and the variance, the
division and the nonlinearity run in fp32 on the stored values, and the result is stored in the format. The input alone
is kept for the backward pass; the rest is made again, sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.models.nonlinearity import NONLINEARITIES, nonlinearity_name
from halfwave.models.pointwise import PointwiseModule
from halfwave.numerics import Arithmetic
from halfwave.precision import Policy, as_policy
from halfwave.spectral.slicing import slices


class NormActivation(PointwiseModule):
    """activation(GroupNorm(x)): (B, C, *grid) to the same, at most `groups` groups (as many as divide the channels).

    `activation` is the name of a nonlinearity, or None for none. Without `affine` there is no learned scale and shift;
    with as many groups as channels that is an instance norm.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        channels: int,
        activation: str | None = "gelu",
        *,
        groups: int = 8,
        affine: bool = True,
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        self.groups = gcd(groups, channels)
        self.activation = None if activation is None else nonlinearity_name(activation)
        for name, value in (("weight", torch.ones(channels)), ("bias", torch.zeros(channels))):
            if affine:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value, persistent=False)
        self.policy = as_policy(precision)

    def forward(self, x: Tensor) -> Tensor:
        arith, activation = self.arithmetic(x.device), activation_function(self.activation)
        if torch.compiler.is_compiling():  # which recomputes by itself, and cannot trace a gradient inside a function
            wide = x.to(self.weight.dtype)
            return arith.store(_function(wide, self.weight, self.bias, self.groups, activation))
        out: Tensor = _Normalize.apply(x, self.weight, self.bias, arith, self.groups, activation)
        return out

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, groups={self.groups}, {self.activation}"


def activation_function(name: str | None) -> Callable[[Tensor], Tensor]:
    """The nonlinearity of this name, or the identity for None."""
    return _identity if name is None else NONLINEARITIES[name].function


def _identity(x: Tensor) -> Tensor:
    return x


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        arith: Arithmetic,
        groups: int,
        activation: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.rest = (groups, activation)
        parts = [
            arith.store(_function(x[part].to(weight.dtype), weight, bias, groups, activation))
            for part in _sample_slices(x)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        scale, shift = (t.detach().requires_grad_() for t in (weight, bias))
        grad_x = torch.empty_like(x)
        grad_scale, grad_shift = torch.zeros_like(weight), torch.zeros_like(bias)
        for part in _sample_slices(x):
            with torch.enable_grad():
                wide = x[part].detach().to(weight.dtype).requires_grad_()
                out = _function(wide, scale, shift, *ctx.rest)
            found = torch.autograd.grad(out, (wide, scale, shift), grad[part].to(weight.dtype))
            grad_x[part] = found[0]
            grad_scale += found[1]
            grad_shift += found[2]
        return grad_x, grad_scale, grad_shift, None, None, None


def _function(x: Tensor, weight: Tensor, bias: Tensor, groups: int, activation: Callable[[Tensor], Tensor]) -> Tensor:
    return activation(torch.group_norm(x, groups, weight, bias))


def _sample_slices(x: Tensor) -> list[slice]:
    return list(slices(len(x), 8 * x[0].numel(), x.device))
