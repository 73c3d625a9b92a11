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

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Gradients, Operands, compiling, run_kernel, run_linear

PAIR = "P"


def expand(right: Tensor, subscripts: str, left: str, result: str) -> Tensor:
    """The right operand of `product` as real blocks: (batch, 2K, 2N)."""
    batch, summed, own = _roles(left, subscripts, result)
    pair = permuted(right, subscripts, PAIR + batch + summed + own)
    shape = pair.shape[1:]
    rows, columns = len(batch), len(batch) + len(summed)
    blocks = run_linear(_Blocks(rows, columns), pair)
    return blocks.reshape(prod(shape[:rows]), 2 * prod(shape[rows:columns]), 2 * prod(shape[columns:]))


@dataclass(frozen=True)
class _Blocks:
    """[[re, im], [-im, re]] of a pair (2, *batch, *summed, *own), in place: nothing else of that size is made.

    `rows` and `columns` count the axes before the summed ones and before the own ones.
    """

    rows: int
    columns: int

    @property
    def adjoint(self) -> _Unblocks:
        return _Unblocks(self.rows, self.columns)

    def plain(self, pair: Tensor) -> Tensor:
        re, im = pair.unbind(0)
        above, below = (torch.stack(parts, self.columns) for parts in ((re, im), (-im, re)))
        return torch.stack((above, below), self.rows)

    def forward(self, pair: Tensor) -> Tensor:
        shape, rows, columns = pair.shape[1:], self.rows, self.columns
        blocks = pair.new_empty((*shape[:rows], 2, *shape[rows:columns], 2, *shape[columns:]))
        above, below = blocks.unbind(rows)
        above.copy_(pair.movedim(0, columns))
        re, im = pair.unbind(0)
        minus_im, plus_re = below.unbind(columns)
        minus_im.copy_(im).neg_()
        plus_re.copy_(re)
        return blocks


@dataclass(frozen=True)
class _Unblocks:
    """The adjoint of `_Blocks`: each part of the pair gathers the two places that it stands in."""

    rows: int
    columns: int

    @property
    def adjoint(self) -> _Blocks:
        return _Blocks(self.rows, self.columns)

    def plain(self, blocks: Tensor) -> Tensor:
        above, below = blocks.unbind(self.rows)
        (re, im), (minus_im, plus_re) = above.unbind(self.columns), below.unbind(self.columns)
        return torch.stack((re + plus_re, im - minus_im))

    def forward(self, blocks: Tensor) -> Tensor:
        above, below = blocks.unbind(self.rows)
        out = above.movedim(self.columns, 0).clone(memory_format=torch.contiguous_format)
        out[0] += below.select(self.columns, 1)
        out[1] -= below.select(self.columns, 0)
        return out


def product(
    left: Tensor, subscripts: str, expanded: Tensor, right_shape: dict[str, int], result: str, arith: Arithmetic
) -> Tensor:
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
    out = arith.multiply(torch.bmm, rows, expanded) if count > 1 else arith.multiply(torch.mm, rows[0], expanded[0])
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
    return run_kernel(_Scale(result.index(PAIR)), a, b)


@dataclass(frozen=True)
class _Scale:
    """The kernel of a b for pairs whose parts stand along `axis`."""

    axis: int

    def plain(self, a: Tensor, b: Tensor) -> Tensor:
        (ar, ai), (br, bi) = a.unbind(self.axis), b.unbind(self.axis)
        return torch.stack((ar * br - ai * bi, ai * br + ar * bi), self.axis)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return _multiply(a, b, self.axis)

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        (a, b), (needs_a, needs_b) = tensors, needs
        grad_a = _multiply(grad, b, self.axis, conjugate=True).sum_to_size(a.shape) if needs_a else None
        grad_b = _multiply(grad, a, self.axis, conjugate=True).sum_to_size(b.shape) if needs_b else None
        return grad_a, grad_b


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
    return compiling()


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
