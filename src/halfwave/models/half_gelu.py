"""GELU of a compiled program in a half format: polynomials in the place of erf and exp.

    gelu(x) = x (1/2 + s(x)),      gelu'(x) = 1/2 + d(x),      s, d odd and ±1/2 from |x| = 5 on

s(x) = x p(2 x²/25 - 1) with p of degree 11, d likewise of degree 12: minimax fits of Φ - 1/2 and of Φ + x φ - 1/2 that
are exact at the end of the interval. In fp32 they are within 2e-6 of s (gelu within 2.5e-6 up to |x| = 5 and 1e-7 |x|
beyond) and 8e-6 of d, where rounding to fp16 is 5e-4 and to bf16 4e-3. A compiler makes of them a few multiplications
and additions in the loop that it has anyway; its erf and exp took twice to three times as long as the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from halfwave.numerics import Gradients, Operands, run_kernel

_END = 5.0
# Lowest power first.
_S = (
    0.141363741,
    -0.0702985427,
    0.0515262309,
    -0.0403854335,
    0.0313452503,
    -0.0236595493,
    0.0169610111,
    -0.0101013734,
    0.00502663342,
    -0.00392401388,
    0.00324374406,
    -0.001097698,
)
_D = (
    0.142135441,
    -0.0751057934,
    0.0665861234,
    -0.0720013215,
    0.0799230752,
    -0.0821491304,
    0.082133742,
    -0.0771327686,
    0.0485314438,
    -0.0177399033,
    0.0200510717,
    -0.024799155,
    0.00956717536,
)


def half_gelu(x: Tensor) -> Tensor:
    """x Φ(x) in the dtype of `x`, computed in fp32."""
    return run_kernel(_HalfGelu(), x)


@dataclass(frozen=True)
class _HalfGelu:
    """The kernel of x."""

    def plain(self, x: Tensor) -> Tensor:
        return functional.gelu(x)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * (0.5 + _odd(wide, _S))).to(x.dtype)

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        wide = tensors[0].float()
        return ((grad.float() * (0.5 + _odd(wide, _D))).to(grad.dtype),)


def _odd(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """x p(2 (x/5)² - 1), of x no further out than 5."""
    x = x.clamp(-_END, _END)
    u = x * x * (2 / _END**2) - 1
    value = torch.full_like(u, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * u + coefficient
    return x * value
