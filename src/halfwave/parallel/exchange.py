"""Exchanges that PyTorch differentiates: each is linear, and its adjoint is another one.

| kernel      | does                                                        | adjoint       |
| ----------- | ----------------------------------------------------------- | ------------- |
| ScatterSum  | shares of a sum over processes -> the own rows of the sum   | Gather        |
| Gather      | own rows -> all rows, the same in every process             | ScatterSum    |
| SumOver     | shares -> their sum, in every process                       | SumOver       |

A loss of the whole problem is the sum of what every process calls `backward` on; the adjoints are of that sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic
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

    @property
    def adjoint(self) -> Gather:
        return Gather(self.ranks, self.counts, self.arith)

    def plain(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.ranks.exchange(x.contiguous(), self.counts)
        wide = torch.float64 if x.dtype is torch.float64 else torch.float32
        return self.arith.store(shares.sum(0, dtype=wide))


@dataclass(frozen=True)
class Gather:
    """(counts[rank], ...) own rows to (Σ counts, ...)."""

    ranks: Ranks
    counts: tuple[int, ...]
    arith: Arithmetic

    @property
    def adjoint(self) -> ScatterSum:
        return ScatterSum(self.ranks, self.counts, self.arith)

    def plain(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.ranks.collect(self.arith.store(x), self.counts)


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
