"""Legendre matrices: for every order m one real matrix (L, H) between H latitudes and L degrees, cached.

Entry (m, l, h) is u_h P_lm(cos θ_h). Applying it over h is analysis, its transpose over l is synthesis. Two
weightings, as for Fourier matrices: ``"mean"`` (u = quadrature weights of sum 1: coefficients are means, bounded by
max|v|) for the forward transform and ``"hermitian"`` (u = 1) for the inverse one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, ByteCache, compiling, get_format, portable
from halfwave.spectral.legendre import SphereGrid, legendre_functions, quadrature
from halfwave.spectral.matrices import Weighting, scale_of

# Both matrices of degree 512 with 256 orders in fp32.
CACHE_BYTES = 1 << 30
# Orders whose float64 table is built at once.
_BLOCK = 32
# Near the poles P_lm falls like (sin θ)^m, past what fp32 holds as a normal number; a CPU takes a hundred times as long
# for a product with such (a step of an SFNO of degree 256 took 1.6 times as long in all). Entries of size 1 are
# rounded to 2^-24 or worse, so nothing is lost where these are zero.
_NEGLIGIBLE = 2.0**-64


@dataclass(frozen=True)
class LegendreKey:
    """What a Legendre matrix depends on."""

    shape: tuple[int, int, int]
    start: int
    latitudes: int
    grid: SphereGrid
    weighting: Weighting
    arithmetic: Arithmetic
    device: torch.device


def legendre_matrix(
    shape: tuple[int, int, int],
    grid: SphereGrid,
    weighting: Weighting,
    arith: Arithmetic,
    device: torch.device,
    piece: tuple[int, int] | None = None,
) -> Tensor:
    """The analysis matrices of shape (M orders, L degrees, H latitudes).

    The latitudes are all of the grid, or H of them: `piece` is then (the first of them, how many the grid has).
    """
    where = [*shape, *(piece or (0, shape[2]))]
    mode = portable()
    if mode is not None:
        key = _key(where, grid, weighting, arith, device)
        return mode.constant(key, lambda: _build(key))
    if compiling():
        return _legendre_operator(where, grid, weighting, arith.format.name, arith.compute, device)
    return _CACHE.get(_key(where, grid, weighting, arith, device), _build)


def _key(where: list[int], grid: str, weighting: str, arith: Arithmetic, device: torch.device) -> LegendreKey:
    orders, degrees, points, start, latitudes = where
    return LegendreKey(
        (orders, degrees, points),
        start,
        latitudes,
        "equiangular" if grid == "equiangular" else "legendre-gauss",
        "mean" if weighting == "mean" else "hermitian",
        arith,
        device,
    )


# For torch.compile: one opaque node instead of a traced construction. A copy, because a graph owns its intermediates.
# The graph says what it multiplies in: when it runs, the hardware (`cpu_multiplies`) may be another.
@torch.library.custom_op("halfwave::legendre_matrix", mutates_args=())
def _legendre_operator(
    where: list[int], grid: str, weighting: str, format: str, compute: torch.dtype, device: torch.device
) -> Tensor:
    key = _key(where, grid, weighting, Arithmetic(get_format(format), compute), device)
    return _CACHE.get(key, _build).clone()


@_legendre_operator.register_fake
def _(where: list[int], grid: str, weighting: str, format: str, compute: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(where[:3], dtype=compute, device=device)


def _build(key: LegendreKey) -> Tensor:
    matrix = torch.empty(key.shape, dtype=key.arithmetic.compute, device=key.device)
    if key.device.type == "meta":
        return matrix
    orders, degrees, points = key.shape
    latitudes, own = key.latitudes, slice(key.start, key.start + points)
    theta, weights = (values[own] for values in quadrature(latitudes, key.grid))
    for start in range(0, orders, _BLOCK):
        block = range(start, min(start + _BLOCK, orders))
        exact = legendre_functions(block, degrees, theta)
        if key.arithmetic.compute is not torch.float64:
            exact[exact.abs() < _NEGLIGIBLE] = 0
        if key.weighting == "mean":
            # The weights are about 1/H: entries of size 1 are rounded, 1/H is the scale.
            entries = key.arithmetic.constant(exact * (weights * latitudes), scale_of(latitudes, key.weighting))
        else:
            entries = key.arithmetic.constant(exact)
        matrix[start : block.stop] = entries.to(key.device)
    return matrix


_CACHE: ByteCache[LegendreKey, Tensor] = ByteCache(CACHE_BYTES, at_least=1)
