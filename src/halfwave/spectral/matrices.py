"""Transform matrices: one small real matrix per axis, cached.

With θ = 2π k n / N, k a kept frequency and n a grid point, and complex numbers as real pairs:
- last axis, real field to pairs: A = w_k [cos θ | -sin θ], of shape (N, 2K);
- an inner axis, pairs to pairs, grid index and pair index interleaved as (n, re/im): of shape (2K, 2N),
      [[ w cos θ,  w sin θ], ...]   rows of the real parts
      [[-w sin θ,  w cos θ], ...]   rows of the imaginary parts.
Applying them is analysis (field to coefficients); applying their transposes is synthesis (coefficients to field), and
each is exactly the adjoint of the other, so the backward pass needs nothing else.

Two weightings: ``"mean"`` (w = 1/N: coefficients are means, |coefficient| <= max|v|, no overflow in any format) for the
forward transform, and ``"hermitian"`` (w = 1, or 2 on the last axis for the frequencies that stand for two) for the
inverse one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, ByteCache, compiling, get_format, portable
from halfwave.spectral.modes import AxisModes
from halfwave.spectral.traced_matrix import traced_matrix

Weighting = Literal["mean", "hermitian"]

CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class MatrixKey:
    """What a transform matrix depends on: the axis (size, modes), the weighting, the format, the device."""

    axis: AxisModes
    last: bool
    weighting: Weighting
    arithmetic: Arithmetic
    device: torch.device


def transform_matrix(
    axis: AxisModes, last: bool, weighting: Weighting, arith: Arithmetic, device: torch.device
) -> Tensor:
    """The analysis matrix of an axis; its transpose is the synthesis matrix."""
    mode = portable()
    if mode is not None and mode.free_grid:
        return traced_matrix(axis, last, weighting, arith)
    where = [axis.size, axis.first, axis.count, axis.shift]
    if mode is not None:
        key = _key(where, last, weighting, arith, device)
        return mode.constant(key, lambda: _build(key))
    if compiling():
        return _matrix_operator(where, last, weighting, arith.format.name, arith.compute, device)
    return _CACHE.get(_key(where, last, weighting, arith, device), _build)


def _key(axis: list[int], last: bool, weighting: str, arith: Arithmetic, device: torch.device) -> MatrixKey:
    size, first, count, shift = axis
    kind: Weighting = "mean" if weighting == "mean" else "hermitian"
    return MatrixKey(AxisModes(size, first, count, 0, shift), last, kind, arith, device)


# For torch.compile: one opaque node instead of a traced construction. A copy, because a graph owns its intermediates.
# The graph says what it multiplies in: when it runs, the hardware (`cpu_multiplies`) may be another.
@torch.library.custom_op("halfwave::transform_matrix", mutates_args=())
def _matrix_operator(
    axis: list[int], last: bool, weighting: str, format: str, compute: torch.dtype, device: torch.device
) -> Tensor:
    return _CACHE.get(_key(axis, last, weighting, Arithmetic(get_format(format), compute), device), _build).clone()


@_matrix_operator.register_fake
def _(axis: list[int], last: bool, weighting: str, format: str, compute: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(_shape(axis[0], axis[2], last), dtype=compute, device=device)


def _shape(size: int, count: int, last: bool) -> tuple[int, int]:
    return (size, 2 * count) if last else (2 * count, 2 * size)


def scale_of(points: int, weighting: Weighting) -> float:
    """What the entries of an axis with this many points are scaled by, after rounding where products are wide."""
    return 1.0 / points if weighting == "mean" else 1.0


def last_axis_weights(axis: AxisModes, weighting: Weighting) -> Tensor:
    """w_k of the last axis in float64, shape (K,): 1/N, or how many frequencies k stands for (itself and -k)."""
    if weighting == "mean":
        return torch.full((axis.count,), 1.0 / axis.size, dtype=torch.float64)
    doubled = torch.full((axis.count,), 2.0, dtype=torch.float64)
    doubled[0] = 1.0
    if axis.size % 2 == 0 and axis.count == axis.size // 2 + 1:
        doubled[-1] = 1.0
    return doubled


def frequencies(axis: AxisModes, weighting: Weighting) -> Tensor:
    """The kept frequencies as integers, shape (K,); shifted in the inverse where the layout says so."""
    first = axis.first + (axis.shift if weighting == "hermitian" else 0)
    return torch.arange(first, first + axis.count)


def _build(key: MatrixKey) -> Tensor:
    if key.device.type == "meta":
        return torch.empty(_shape(key.axis.size, key.axis.count, key.last), dtype=key.arithmetic.compute, device="meta")
    return (_last(key) if key.last else _inner(key)).to(key.device).contiguous()


_CACHE: ByteCache[MatrixKey, Tensor] = ByteCache(CACHE_BYTES, at_least=1)


def _angles(axis: AxisModes, weighting: Weighting) -> Tensor:
    """θ = 2π (k n mod N) / N, reduced in integers so that large k n lose nothing; shape (K, N)."""
    k, n = frequencies(axis, weighting), torch.arange(axis.size)
    return (k[:, None] * n % axis.size).double() * (2 * math.pi / axis.size)


def _last(key: MatrixKey) -> Tensor:
    theta = _angles(key.axis, key.weighting).T
    exact = torch.cat([theta.cos(), -theta.sin()], dim=1)
    if key.weighting == "mean":
        return key.arithmetic.constant(exact, scale_of(key.axis.size, key.weighting))
    doubled = last_axis_weights(key.axis, key.weighting).repeat(2)
    # Sines of the frequencies 0 and N/2 are zero in exact arithmetic: their imaginary parts drop out, as in irfft.
    alone = doubled == 1.0
    alone[: key.axis.count] = False
    return key.arithmetic.constant(exact.masked_fill(alone, 0.0) * doubled)


def _inner(key: MatrixKey) -> Tensor:
    theta = _angles(key.axis, key.weighting)
    c, s = theta.cos(), theta.sin()
    real = torch.stack([c, s], dim=2).flatten(1)
    imaginary = torch.stack([-s, c], dim=2).flatten(1)
    return key.arithmetic.constant(torch.cat([real, imaginary]), scale_of(key.axis.size, key.weighting))
