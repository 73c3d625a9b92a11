"""Exchanges that PyTorch differentiates: each is linear, and its adjoint is another one.

| kernel      | does                                                        | adjoint       |
| ----------- | ----------------------------------------------------------- | ------------- |
| ScatterSum  | shares of a sum over processes -> the own rows of the sum   | Gather        |
| Gather      | own rows -> all rows, the same in every process             | ScatterSum    |
| SumOver     | shares -> their sum, in every process                       | SumOver       |

A loss of the whole problem is the sum of what every process calls `backward` on; the adjoints are of that sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, run_linear
from halfwave.parallel.ranks import Ranks


@dataclass(frozen=True)
class ScatterSum:
    """(Σ counts, ...) shares in the storage of `arith` to (counts[rank], ...): the rows that this process owns, summed.

    Shares travel in the format of the policy and are added in fp32 (fp64), then rounded once more. With u the unit
    roundoff of that format and shares that are parts of a mean of v, the sum is within 2 u max|v| of the exact one:
    Σ_q u |share_q| <= u max|v| for the shares, and as much for the sum. Formats as wide as fp32 choose themselves.
    """

    ranks: Ranks
    counts: tuple[int, ...]
    arith: Arithmetic
    purpose: str = "modes"

    @property
    def adjoint(self) -> Gather:
        return Gather(self.ranks, self.counts, self.arith, self.purpose)

    def plain(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.ranks.exchange(x.contiguous(), self.counts, self.purpose)
        wide = torch.float64 if x.dtype is torch.float64 else torch.float32
        return self.arith.store(shares.sum(0, dtype=wide))


@dataclass(frozen=True)
class Gather:
    """(counts[rank], ...) own rows to (Σ counts, ...)."""

    ranks: Ranks
    counts: tuple[int, ...]
    arith: Arithmetic
    purpose: str = "modes"

    @property
    def adjoint(self) -> ScatterSum:
        return ScatterSum(self.ranks, self.counts, self.arith, self.purpose)

    def plain(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.ranks.collect(self.arith.store(x), self.counts, self.purpose)


@dataclass(frozen=True)
class SumOver:
    """The sum over processes, in each of them."""

    ranks: Ranks
    purpose: str = "sums"

    @property
    def adjoint(self) -> SumOver:
        return self

    def plain(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.ranks.total(x, self.purpose)


@dataclass(frozen=True)
class SharedWeights:
    """Parameters as they are, whose gradients are summed over processes by `kernels`: all of them in one message.

    For a layer whose parameters get their gradients in another order in each process, as one does that has edges and
    one that has none: sums of single ones, each as it arrives, would then not belong together.
    """

    kernels: tuple[SumOver, ...]

    def __call__(self, weights: Iterable[Tensor]) -> tuple[Tensor, ...]:
        shared: tuple[Tensor, ...] = _Together.apply(self.kernels, *weights)
        return shared


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: tuple[SumOver, ...], *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.kernels = kernels
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        for kernel in ctx.kernels:
            flat = run_linear(kernel, flat)
        parts = flat.split([grad.numel() for grad in grads])
        return None, *(part.view(grad.shape) for part, grad in zip(parts, grads, strict=True))
