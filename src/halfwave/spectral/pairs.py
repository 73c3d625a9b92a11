"""Products of two complex tensors that are stored as real pairs.

A tensor's subscripts name its axes, 'P' the pair axis: "klPbc" has axes k, l, (re, im), b, c. Two ways to multiply:

- `product`, where indices are summed: one real matrix product. The right operand is expanded to the 2x2 block
  [[re, im], [-im, re]], so that the product sums the real and imaginary parts too and its result is the pair itself:
      (M, 2K) @ (2K, 2N) = (M, 2N).
  Nothing of the result's size is made beside it (four products and a stack make three times as much), and a
  half-precision result is rounded once.
- `scale`, where no index is summed: multiplication of entries, with broadcasting.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

PAIR = "P"


def expand(right: Tensor, subscripts: str, left: str, result: str) -> Tensor:
    """The right operand of `product` as real blocks: (batch, 2K, 2N)."""
    batch, summed, own = _roles(left, subscripts, result)
    pair = permuted(right, subscripts, PAIR + batch + summed + own)
    shape = pair.shape[1:]
    rows, columns = len(batch), len(batch) + len(summed)
    blocks = _Blocks.apply(pair, rows, columns)
    return blocks.view(prod(shape[:rows]), 2 * prod(shape[rows:columns]), 2 * prod(shape[columns:]))


class _Blocks(torch.autograd.Function):
    """[[re, im], [-im, re]] of a pair (2, *batch, *summed, *own), in place: nothing else of that size is made."""

    @staticmethod
    def forward(ctx: Any, pair: Tensor, rows: int, columns: int) -> Tensor:
        ctx.axes = (rows, columns)
        shape = pair.shape[1:]
        blocks = pair.new_empty((*shape[:rows], 2, *shape[rows:columns], 2, *shape[columns:]))
        above, below = blocks.unbind(rows)
        above.copy_(pair.movedim(0, columns))
        re, im = pair.unbind(0)
        minus_im, plus_re = below.unbind(columns)
        minus_im.copy_(im).neg_()
        plus_re.copy_(re)
        return blocks

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, columns = ctx.axes
        above, below = grad.unbind(rows)
        out = above.movedim(columns, 0).clone(memory_format=torch.contiguous_format)
        out[0] += below.select(columns, 1)
        out[1] -= below.select(columns, 0)
        return out, None, None


def product(left: Tensor, subscripts: str, expanded: Tensor, right_shape: dict[str, int], result: str) -> Tensor:
    """Sum over the indices that both operands have and `result` lacks.

    `result` has the order batch, left's own, P, right's own: the order in which the matrix product leaves them.
    """
    right = "".join(right_shape)
    batch, summed, _ = _roles(subscripts, right, result)
    mine = "".join(i for i in subscripts if i in result and i not in batch and i != PAIR)
    sizes = dict(zip(subscripts, left.shape, strict=True)) | right_shape
    rows = permuted(left, subscripts, batch + mine + PAIR + summed)
    count = prod([sizes[i] for i in batch])
    rows = rows.reshape(count, prod([sizes[i] for i in mine]), expanded.shape[1])
    # bmm on a batch of one is slower than mm in the backward pass.
    out = torch.bmm(rows, expanded) if count > 1 else torch.mm(rows[0], expanded[0])
    return out.view([2 if i == PAIR else sizes[i] for i in result])


def product_order(left: str, right: str, kept: frozenset[str]) -> str:
    """Subscripts of the result of `product`."""
    batch = "".join(i for i in left if i in right and i in kept)
    mine = "".join(i for i in left if i in kept and i not in right)
    own = "".join(i for i in right if i in kept and i not in left)
    return batch + mine + PAIR + own


def scale(left: Tensor, left_subscripts: str, right: Tensor, right_subscripts: str, result: str) -> Tensor:
    """Entry by entry; an index that one operand lacks is repeated."""
    a, b = aligned(left, left_subscripts, result), aligned(right, right_subscripts, result)
    return _Scale.apply(a, b, result.index(PAIR))


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, axis: int) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.axis = axis
        return _multiply(a, b, axis)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        grad_a = _multiply(grad, b, ctx.axis, conjugate=True).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        grad_b = _multiply(grad, a, ctx.axis, conjugate=True).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b, None


def _multiply(a: Tensor, b: Tensor, axis: int, conjugate: bool = False) -> Tensor:
    """a b, or a conj(b), written straight into the pair."""
    (ar, ai), (br, bi) = a.unbind(axis), b.unbind(axis)
    sign = -1 if conjugate else 1
    out = a.new_empty(torch.broadcast_shapes(a.shape, b.shape))
    re, im = out.unbind(axis)
    torch.mul(ar, br, out=re) if not _tracing() else re.copy_(ar * br)
    re.addcmul_(ai, bi, value=-sign)
    torch.mul(ai, br, out=im) if not _tracing() else im.copy_(ai * br)
    im.addcmul_(ar, bi, value=sign)
    return out


def _tracing() -> bool:
    # The compiler's functional graphs have no `out=` into a view; it fuses the copy away.
    return torch.compiler.is_compiling()


def permuted(tensor: Tensor, subscripts: str, order: str) -> Tensor:
    """The axes in another order; those that `order` lacks are summed."""
    dropped = [axis for axis, i in enumerate(subscripts) if i not in order]
    if dropped:
        tensor = tensor.sum(dropped)
        subscripts = "".join(i for i in subscripts if i in order)
    return tensor if subscripts == order else tensor.permute([subscripts.index(i) for i in order])


def aligned(tensor: Tensor, subscripts: str, result: str) -> Tensor:
    """`tensor` with the axes of `result`, those that it lacks of length one."""
    present = "".join(i for i in result if i in subscripts)
    tensor = permuted(tensor, subscripts, present)
    return tensor[tuple(slice(None) if i in present else None for i in result)]


def to_complex(tensor: Tensor, subscripts: str) -> Tensor:
    """A pair tensor in fp32 or fp64 as a complex one, without its pair axis."""
    wide = tensor if tensor.dtype is torch.float64 else tensor.float()
    return torch.view_as_complex(wide.movedim(subscripts.index(PAIR), -1).contiguous())


def from_complex(tensor: Tensor, subscripts: str) -> Tensor:
    """A complex tensor as a pair tensor with these subscripts."""
    return torch.view_as_real(tensor).movedim(-1, subscripts.index(PAIR))


def with_pair(indices: str) -> str:
    """Where operands and results keep their pair axis: before their last index."""
    return indices[:-1] + PAIR + indices[-1]


def front(subscripts: str) -> str:
    """The same axes with the pair axis first."""
    return PAIR + subscripts.replace(PAIR, "")


def _roles(left: str, right: str, result: str) -> tuple[str, str, str]:
    """Indices of a product: of the batch, summed, and the right operand's own; each in one order for both operands."""
    shared = [i for i in left if i in right and i != PAIR]
    batch = "".join(i for i in shared if i in result)
    summed = "".join(i for i in shared if i not in result)
    own = "".join(i for i in right if i in result and i not in left)
    return batch, summed, own
