"""Products of fp32 operands by bf16 parts: a = a1 + a2 (+ a3), each part the rounding to bf16 of what is left.

    x2: a b ~ a1 b1 + a1 b2 + a2 b1,        x3: the six products a_i b_j with i + j <= 4,

added up in fp32. A part of 8 significant bits and a sign leaves at most 2^-8 of a number: two parts hold 17 bits, three
the 24 of fp32, down to the smallest number of bf16, 2^-133. What is left out of a product is at most 2^-16 |a b| for
two parts (a2 b2), and (2^-24 + 2^-34) |a b| for three (a2 b3 + a3 b2 + a3 b3). Products of two parts have 16 bits:
exact in fp32, so the instructions of bf16 and those of fp32 give the same numbers, up to the order of a sum.
Derivation: docs/theory.md.

Every bilinear operator serves: a matrix product, a convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import torch
from torch import Tensor

from halfwave.numerics.hardware import bf16_tiles
from halfwave.numerics.rounding import round_to

Bilinear = Callable[[Tensor, Tensor], Tensor]


def split(x: Tensor, parts: int) -> list[Tensor]:
    """`x` in fp32 as this many numbers of bf16, largest first, in fp32; past the largest number the first is inf."""
    found, rest = [], x
    for _ in range(parts - 1):
        found.append(round_to(rest, "bf16"))
        rest = torch.where(found[-1].isfinite(), rest - found[-1], 0.0)
    return [*found, round_to(rest, "bf16")]


def multiply_parts(product: Bilinear, a: Tensor, b: Tensor, parts: int) -> Tensor:
    """`product` of both operands by their parts, the smallest products first."""
    with bf16_tiles(a.device):
        return reduce(add, (product(x, y) for x, y in kept_products(a, b, parts)))


def kept_products(a: Tensor, b: Tensor, parts: int) -> list[tuple[Tensor, Tensor]]:
    """The pairs (a_i, b_j) that are multiplied: i + j <= parts + 1, the smallest first."""
    left, right = split(a, parts), split(b, parts)
    return [(left[i], right[order - i]) for order in reversed(range(parts)) for i in range(order + 1)]
