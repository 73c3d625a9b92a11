"""GroupNorm and the nonlinearity after it, with statistics in fp32 (or fp64) whatever the format of the fields.

Half-precision sums of squares over a grid would overflow (fp16) or stagnate (bf16); so the mean and the variance, the
division and the nonlinearity run in fp32 on the stored values, and the result is stored in the format. The input alone
is kept for the backward pass; the rest is made again, sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor, nn

from halfwave.models.nonlinearity import NONLINEARITIES, nonlinearity_name
from halfwave.models.pointwise import PointwiseModule
from halfwave.numerics import Arithmetic, Gradients, Operands, compiling, run_kernel
from halfwave.precision import Policy, as_policy
from halfwave.spectral import slices


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

    @property
    def masters(self) -> Tensor:
        """The scale: a constant where it is not learned."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        arith, activation = self.arithmetic(x.device), activation_function(self.activation)
        wide = torch.float64 if torch.float64 in (arith.storage, self.weight.dtype) else torch.float32
        kernel, parameters = _Normalize(arith, self.groups, activation), (self.weight.to(wide), self.bias.to(wide))
        if compiling():  # which recomputes by itself, and cannot trace a gradient inside a function
            return kernel.plain(x, *parameters)
        return run_kernel(kernel, x, *parameters)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, groups={self.groups}, {self.activation}"


def activation_function(name: str | None) -> Callable[[Tensor], Tensor]:
    """The nonlinearity of this name, or the identity for None."""
    return _identity if name is None else NONLINEARITIES[name].function


def _identity(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True)
class _Normalize:
    """The kernel of x (B, C, *grid), weight and bias (C,)."""

    arith: Arithmetic
    groups: int
    activation: Callable[[Tensor], Tensor]

    def plain(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self.arith.store(self._wide(x.to(weight.dtype), weight, bias))

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        parts = [self.plain(x[part], weight, bias) for part in _sample_slices(x)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        x, weight, bias = tensors
        scale, shift = (t.detach().requires_grad_() for t in (weight, bias))
        grad_x = torch.empty_like(x)
        grad_scale, grad_shift = torch.zeros_like(weight), torch.zeros_like(bias)
        for part in _sample_slices(x):
            with torch.enable_grad():
                wide = x[part].detach().to(weight.dtype).requires_grad_()
                out = self._wide(wide, scale, shift)
            found = torch.autograd.grad(out, (wide, scale, shift), grad[part].to(weight.dtype))
            grad_x[part] = found[0]
            grad_scale += found[1]
            grad_shift += found[2]
        return grad_x, grad_scale, grad_shift

    def _wide(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self.activation(torch.group_norm(x, self.groups, weight, bias))


def _sample_slices(x: Tensor) -> list[slice]:
    return list(slices(len(x), 8 * x[0].numel(), x.device))
