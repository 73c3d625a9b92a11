"""Convolution on the grid in the policy's `pointwise` format: what AMP does to a convolutional network.

Operands are rounded to the format, products accumulate in fp32, results are stored in the format. Saved for the
backward pass: the input as it is stored, and the fp32 master weights; where products are wide, the widened copies are
made again, sample by sample, so a CPU without half-precision instructions saves the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.models.pointwise import PointwiseModule
from halfwave.numerics import Arithmetic, Gradients, Operands, run_kernel
from halfwave.precision import Policy, as_policy
from halfwave.spectral import slices


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
        return run_kernel(_Convolve(self.arithmetic(x.device), self.upsample), x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, upsample={self.upsample}, pointwise={self.arithmetic(self.weight.device)}"


@dataclass(frozen=True)
class _Convolve:
    """The kernel of x (B, C, H, W), weight and bias."""

    arith: Arithmetic
    upsample: bool

    def plain(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        kernel, shift = self.arith.load(weight), self.arith.load(bias)
        return self.arith.store(
            _convolved(self.arith, self.arith.load(x), kernel, shift, _geometry(weight, self.upsample))
        )

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        arith, geometry = self.arith, _geometry(weight, self.upsample)
        kernel, shift = arith.load(weight), arith.load(bias)
        parts = [
            arith.store(_convolved(arith, arith.load(x[part]), kernel, shift, geometry))
            for part in _sample_slices(x, weight, self.upsample)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        x, weight, _ = tensors
        arith, geometry, (needs_x, needs_weight, needs_bias) = self.arith, _geometry(weight, self.upsample), needs
        kernel = arith.load(weight)
        grad_x = torch.empty_like(x) if needs_x else None
        # Sums over slices in the master weights' dtype: a half-precision running sum would stagnate.
        grad_weight = torch.zeros_like(weight) if needs_weight else None
        grad_bias = weight.new_zeros(grad.shape[1]) if needs_bias else None
        for part in _sample_slices(x, weight, self.upsample):
            g = arith.load(grad[part])
            found_x, found_weight = _convolved_back(arith, g, arith.load(x[part]), kernel, geometry, needs)
            if grad_x is not None and found_x is not None:
                arith.store_into(grad_x[part], found_x)
            if grad_weight is not None and found_weight is not None:
                grad_weight += found_weight
            if grad_bias is not None:
                grad_bias += g.sum(dim=(0, 2, 3), dtype=weight.dtype)
        return grad_x, grad_weight, grad_bias


def _convolved(arith: Arithmetic, x: Tensor, kernel: Tensor, shift: Tensor, geometry: dict[str, Any]) -> Tensor:
    """In one operator where products are; by parts the bias follows them."""
    if arith.format.parts == 1:
        return torch.convolution(x, kernel, shift, **geometry)
    made = arith.multiply(lambda a, b: torch.convolution(a, b, None, **geometry), x, kernel)
    return made + shift.view(-1, 1, 1)


def _convolved_back(
    arith: Arithmetic, g: Tensor, x: Tensor, kernel: Tensor, geometry: dict[str, Any], needs: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the input and of the kernel: one operator, but linear in each only alone."""

    def found(g: Tensor, x: Tensor, kernel: Tensor, *mask: bool) -> tuple[Tensor, Tensor, Tensor]:
        return torch.ops.aten.convolution_backward(g, x, kernel, None, **geometry, output_mask=[*mask, False])

    needs_x, needs_kernel = needs[:2]
    if arith.format.parts == 1:
        return found(g, x, kernel, needs_x, needs_kernel)[:2]
    of_x = arith.multiply(lambda a, b: found(a, x, b, True, False)[0], g, kernel) if needs_x else None
    of_kernel = arith.multiply(lambda a, b: found(a, b, kernel, False, True)[1], g, x) if needs_kernel else None
    return of_x, of_kernel


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
