"""Adding a constant to a field by way of its spectrum: one coefficient of each channel changes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halfwave.numerics import compiling, transformed


def add_at(x_hat: Tensor, where: tuple[int | slice, ...], constant: Tensor) -> Tensor:
    """x_hat with (C,) added to x_hat[where], (n, C): in the memory of `x_hat`, which is given up for it."""
    if transformed():
        sizes = (*x_hat.shape[: len(where)], *[1] * (x_hat.ndim - len(where)))
        there = torch.zeros(sizes, dtype=x_hat.dtype, device=x_hat.device)
        there[where] = 1
        return x_hat + there * constant.to(x_hat.dtype)
    result: Tensor = _AddAt.apply(x_hat, where, constant)
    return result


class _AddAt(torch.autograd.Function):
    """The gradient of the whole passes as it is; autograd's own would copy it twice to take out the few numbers.

    The result is not declared as the input changed in place: a spectrum may be a view of another shape, and for
    such autograd copies the gradient again.
    """

    @staticmethod
    def forward(ctx: Any, x_hat: Tensor, where: tuple[int | slice, ...], constant: Tensor) -> Tensor:
        ctx.where, ctx.dtype = where, constant.dtype
        # A compiler makes the copy part of what it writes anyway, and has no operands that are given up.
        result = x_hat.clone() if compiling() else x_hat.detach()
        result[where] += constant.to(x_hat.dtype)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor | None]:
        constant = grad[ctx.where].sum(0, dtype=ctx.dtype) if ctx.needs_input_grad[2] else None
        return grad, None, constant
