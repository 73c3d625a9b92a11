"""Convolution on the grid in the policy's `pointwise` format: what AMP does to a convolutional network.

Operands are rounded to the format, products accumulate in fp32, results are stored in the format. Saved for the
backward pass: the input as it is stored, and the fp32 master weights; where products are wide, the widened copies are
made again, sample by sample, so a CPU without half-precision instructions saves the same memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from halfwave.models.pointwise import PointwiseModule
from halfwave.numerics import Arithmetic
from halfwave.precision import Policy, as_policy
from halfwave.spectral.slicing import slices


class Convolution(PointwiseModule):
    """A convolution with an odd kernel that keeps the grid, or (`upsample`) one that doubles it.

    Shapes: (B, in, H, W) to (B, out, H, W), zeros outside; with `upsample` to (B, out, 2H, 2W) by a transposed
    convolution with kernel 2 and stride 2. Initialised as torch's Conv2d.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int = 3,
        *,
        upsample: bool = False,
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        self.upsample = upsample
        like = (
            nn.ConvTranspose2d(in_channels, out_channels, 2, 2)
            if upsample
            else nn.Conv2d(in_channels, out_channels, kernel)
        )
        self.weight = nn.Parameter(like.weight.detach())
        assert like.bias is not None
        self.bias = nn.Parameter(like.bias.detach())
        self.policy = as_policy(precision)

    def forward(self, x: Tensor) -> Tensor:
        arith = self.arithmetic(x.device)
        if not x.numel():  # an empty batch has no slices
            kernel, shift = arith.load(self.weight), arith.load(self.bias)
            geometry = _geometry(self.weight, self.upsample)
            return arith.store(torch.convolution(arith.load(x), kernel, shift, **geometry))
        out: Tensor = _Convolve.apply(x, self.weight, self.bias, arith, self.upsample)
        return out

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, upsample={self.upsample}, pointwise={self.arithmetic(self.weight.device)}"


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, arith: Arithmetic, upsample: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rest = (arith, upsample)
        kernel, shift = arith.load(weight), arith.load(bias)
        parts = [
            arith.store(torch.convolution(arith.load(x[part]), kernel, shift, **_geometry(weight, upsample)))
            for part in _sample_slices(x, weight, upsample)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        arith, upsample = ctx.rest
        kernel = arith.load(weight)
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        grad_x = torch.empty_like(x) if needs_x else None
        # Sums over slices in the master weights' dtype: a half-precision running sum would stagnate.
        grad_weight = torch.zeros_like(weight)
        grad_bias = weight.new_zeros(grad.shape[1])
        for part in _sample_slices(x, weight, upsample):
            g = arith.load(grad[part])
            found_x, found_weight, _ = torch.ops.aten.convolution_backward(
                g,
                arith.load(x[part]),
                kernel,
                None,
                **_geometry(weight, upsample),
                output_mask=[needs_x, needs_weight, False],
            )
            if grad_x is not None:
                arith.store_into(grad_x[part], found_x)
            if needs_weight:
                grad_weight += found_weight
            grad_bias += g.sum(dim=(0, 2, 3), dtype=weight.dtype)
        return grad_x, grad_weight if needs_weight else None, grad_bias, None, None


def _geometry(weight: Tensor, upsample: bool) -> dict[str, Any]:
    """Arguments of torch's convolution for this kernel."""
    step, margin = (2, 0) if upsample else (1, weight.shape[-1] // 2)
    return {
        "stride": [step, step],
        "padding": [margin, margin],
        "dilation": [1, 1],
        "transposed": upsample,
        "output_padding": [0, 0],
        "groups": 1,
    }


def _sample_slices(x: Tensor, weight: Tensor, upsample: bool) -> list[slice]:
    """Samples whose widened input and output fit a cache."""
    outputs = 4 * weight.shape[1] if upsample else weight.shape[0]
    return list(slices(len(x), 4 * (x.shape[1] + outputs) * x[0, 0].numel(), x.device))
