"""Rounding to a format: nearest, ties to even, gradual underflow, each format's own overflow."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from halfwave.numerics.formats import Format, get_format
from halfwave.numerics.portable_mode import compiling


def round_to(x: Tensor, format: str | Format) -> Tensor:
    """Round every element of `x` to the nearest number of `format`, keeping the dtype of `x`.

    Shapes: any. Ties go to the even neighbour, results below the smallest normal number fall on the subnormal
    grid, results past the largest number become inf, or NaN in fp8_e4m3, which has no infinity. From float32 the
    result has the bits of torch's own cast where torch has the dtype, but for one case: torch 2.13 saturates
    fp8_e4m3 at 448, and silent saturation would hide the overflow that a user wants to see. From float64 it is
    rounded once, not by way of float32. Formats of several bf16 parts round part by part, so that a number near one
    part keeps more than their p bits; from float64 to p bits. The gradient passes straight through.
    """
    target = get_format(format)
    if not x.is_floating_point():
        raise ValueError(f"round_to needs a floating-point tensor, got {x.dtype}")
    return (_StraightThrough if compiling() else _WithTangents).apply(x, target)


def at_least_fp32(x: Tensor) -> Tensor:
    """`x` in fp32, or as it is where that is fp64: for sums and answers that a half format would round again."""
    return x if x.dtype is torch.float64 else x.float()


def round_stochastically(x: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """fp32 to bf16, up or down at random so that the mean is `x`: small changes add up where nearest loses them.

    16 random bits are added below the last kept one and the rest is cut off. inf and NaN stay.
    """
    noise = torch.randint(1 << 16, x.shape, dtype=torch.int32, device=x.device, generator=generator)
    bits = noise.add_(x.contiguous().view(torch.int32)).bitwise_and_(-(1 << 16)).view(torch.float32)
    return torch.where(x.isfinite(), bits, x).to(torch.bfloat16)


class _StraightThrough(torch.autograd.Function):
    """q(x) forward, identity for its gradient."""

    @staticmethod
    def forward(x: Tensor, target: Format) -> Tensor:
        return _rounded(x, target)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Format], output: Tensor) -> None:
        return

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _WithTangents(_StraightThrough):
    """Identity for every derivative; torch.compile does not look into a function that has tangents."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return tangent.view_as(tangent)


def _rounded(x: Tensor, target: Format) -> Tensor:
    if _holds(target, x.dtype):
        return x.clone()
    if target.overflow == "clip":
        x = x.clamp(-target.largest, target.largest)
    if target.parts > 1 and x.dtype is not torch.float64:
        return _sum_of_parts(x, target.parts)
    if target.dtype is torch.bfloat16 and x.dtype is torch.float32:
        return _bf16(x)
    if target.dtype is not None and x.dtype is not torch.float64:
        rounded = x.to(target.dtype).to(x.dtype)
        return _overflow_to_nan(x, rounded, target) if target.overflow == "nan" else rounded
    return _round_by_hand(x, target)


def _bf16(x: Tensor) -> Tensor:
    """fp32 rounded to bf16. By its bits where compiled: inductor takes a cast there and back for none at all."""
    if not compiling():
        return x.to(torch.bfloat16).to(x.dtype)
    bits = x.view(torch.int32)
    even = (bits >> 16) & 1
    rounded = ((bits + 0x7FFF + even) & -0x10000).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x)


def _sum_of_parts(x: Tensor, parts: int) -> Tensor:
    """Each part the rounding to bf16 of what is left; exact, as the sum has no digit below the last one of x."""
    total, rest = torch.zeros_like(x), x
    for _ in range(parts):
        part = _bf16(rest.float()).to(x.dtype)
        total, rest = total + part, torch.where(part.isfinite(), rest - part, 0.0)
    return total


def _holds(target: Format, dtype: torch.dtype) -> bool:
    """Does `target` contain every number of `dtype`?"""
    info = torch.finfo(dtype)
    wider = target.unit_roundoff <= info.eps / 2 and target.largest >= info.max
    return wider and target.smallest_subnormal <= info.smallest_normal * info.eps


def _overflow_to_nan(x: Tensor, rounded: Tensor, target: Format) -> Tensor:
    """Past the largest number plus half the spacing of the format there."""
    half_spacing = target.unit_roundoff * 2.0 ** math.floor(math.log2(target.largest))
    return torch.where(x.abs() > target.largest + half_spacing, torch.nan, rounded)


def _round_by_hand(x: Tensor, target: Format) -> Tensor:
    """Divide by the spacing of the format's numbers around x, round to an integer, multiply back.

    Both scalings are by powers of two and the quotient is below 2^53, so in float64 only the rounding rounds.
    """
    wide = x.to(torch.float64)
    exponent = torch.frexp(wide).exponent - 1
    spacing = exponent.clamp(min=target.min_exponent) - (target.precision - 1)
    # ldexp multiplies by 2^k computed in the tensor's dtype: two halves keep each power in range.
    half = spacing // 2
    integer = torch.ldexp(torch.ldexp(wide, -half), half - spacing).round()
    rounded = torch.ldexp(torch.ldexp(integer, half), spacing - half)
    past = rounded.abs() > target.largest
    if target.overflow == "nan":
        rounded = torch.where(past, torch.nan, rounded)
    else:
        rounded = torch.where(past, torch.copysign(torch.full_like(rounded, torch.inf), rounded), rounded)
    rounded = torch.where(wide.isfinite(), rounded, wide if target.overflow == "inf" else torch.nan)
    return rounded.to(x.dtype)
