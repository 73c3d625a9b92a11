"""The dense contraction of a spectrum with weights: one batched real matrix product.

y_hat(k, b, o) = sum_c x_hat(k, b, c) W(k, c, o), complex, as pairs: the real and imaginary rows of x_hat are stacked
and multiplied by [Wr | Wi] at once, and the four blocks of the result are combined into two:
    re = rr - ii,   im = ri + ir.

Saved for the backward pass: the truncated spectrum in the contraction's format, and the fp32 master weights (which
exist anyway); the rounded weights are made again, slice by slice, so no half-precision copy of them is ever kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Gradients, Operands, compiling, run_kernel
from halfwave.spectral.slicing import SLICE_BYTES, slices

_SMALL_SLICE_BYTES = 128 << 10


def contract_dense(x_hat: Tensor, weight: Tensor, arith: Arithmetic, weight_arith: Arithmetic) -> Tensor:
    """(K, 2, B, C) and (K, C, 2, O) to (K, 2, B, O), in the format of `arith`."""
    return run_kernel(_DenseContraction(arith, weight_arith), arith.store(x_hat), weight)


@dataclass(frozen=True)
class _DenseContraction:
    """The kernel of (K, 2, B, C) in `arith` and fp32 master weights (K, C, 2, O)."""

    arith: Arithmetic
    weight_arith: Arithmetic

    def plain(self, x: Tensor, weight: Tensor) -> Tensor:
        rr, ri, ir, ii = self._blocks(x, weight)
        return self.arith.store(torch.stack([rr - ii, ri + ir], dim=1))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        out = x.new_empty((*x.shape[:3], weight.shape[-1]), dtype=self.arith.storage)
        for part in _mode_slices(x, weight):
            rr, ri, ir, ii = self._blocks(x[part], weight[part])
            self.arith.store_into(out[part, 0], rr - ii)
            self.arith.store_into(out[part, 1], ri + ir)
        return out

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        (x, weight), (needs_x, needs_weight) = tensors, needs
        arith = self.arith
        grad_x = torch.empty_like(x) if needs_x else None
        grad_weight = torch.empty_like(weight, memory_format=torch.contiguous_format) if needs_weight else None
        for part in _mode_slices(x, weight):
            g = _adjoint_blocks(arith.load(grad[part]))
            if grad_x is not None:
                grad_x[part] = _input_gradient(g, weight[part], arith, self.weight_arith).view_as(x[part])
            if grad_weight is not None:
                _weight_gradient(arith, _rows(arith.load(x[part])), g, grad_weight[part].flatten(2))
        return grad_x, grad_weight

    def _blocks(self, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        columns = _columns(weight, self.arith, self.weight_arith)
        product = self.arith.multiply(torch.bmm, _rows(self.arith.load(x)), columns)
        return _four_blocks(self.arith.product(product), x.shape[2])


def _input_gradient(g: Tensor, weight: Tensor, arith: Arithmetic, weight_arith: Arithmetic) -> Tensor:
    """A function of its own, so that the widened weights are gone before their gradient is made."""
    return arith.store(arith.multiply(torch.bmm, g, _columns(weight, arith, weight_arith).transpose(1, 2)))


def _weight_gradient(arith: Arithmetic, rows: Tensor, g: Tensor, out: Tensor) -> None:
    """rows^T g into `out` (K, C, 2O), as large as the weights: a copy of it shows in a training step."""
    if out.dtype is g.dtype and arith.format.parts == 1 and not compiling():
        torch.bmm(rows.transpose(1, 2), g, out=out)
    else:
        out.copy_(arith.multiply(torch.bmm, rows.transpose(1, 2), g))


def _mode_slices(x: Tensor, weight: Tensor) -> list[slice]:
    """By the larger of the weights and the four blocks (on the sphere, where orders ride in the batch, these)."""
    rows, columns = 2 * x.shape[2], 2 * weight.shape[-1]
    mode = 4 * max(weight[0].numel(), rows * columns)
    # At most a quarter of small weights at once: widened as a whole they would outweigh the fields of a small grid.
    budget = min(SLICE_BYTES, max(_SMALL_SLICE_BYTES, len(weight) * mode // 4))
    return list(slices(len(weight), mode, weight.device, budget))


def _rows(x: Tensor) -> Tensor:
    """(K, 2, B, C) to (K, 2B, C): real rows above imaginary ones."""
    return x.flatten(1, 2)


def _columns(weight: Tensor, arith: Arithmetic, weight_arith: Arithmetic) -> Tensor:
    """(K, C, 2, O) to (K, C, 2O) = [Wr | Wi], rounded to the weights' format, ready for products."""
    return weight_arith.load(weight.flatten(2)).to(arith.compute)


def _four_blocks(product: Tensor, batch: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(K, 2B, 2O) into rr, ri, ir, ii of shape (K, B, O)."""
    top, bottom = product[:, :batch], product[:, batch:]
    rr, ri = top.chunk(2, dim=2)
    ir, ii = bottom.chunk(2, dim=2)
    return rr, ri, ir, ii


def _adjoint_blocks(grad: Tensor) -> Tensor:
    """Gradient of the four blocks from that of the two: [[re, im], [im, -re]], of shape (K, 2B, 2O)."""
    re, im = grad[:, 0], grad[:, 1]
    return torch.cat([torch.cat([re, im], dim=2), torch.cat([im, -re], dim=2)], dim=1)
