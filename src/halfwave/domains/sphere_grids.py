"""Latitudes of a sphere: where they lie, how much they count, and what is between them.

Along a meridian the waves e^{imφ} of a smooth field have amplitudes that are polynomials in cos θ for even m, and sin θ
times such a polynomial for odd m. So the interpolant through all latitudes is a polynomial for each parity, in its
barycentric form (Berrut and Trefethen 2004); it is exact for every harmonic of a degree below the number of latitudes
(less two on an equiangular grid, whose poles say nothing about odd m).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch_harmonics.quadrature import clenshaw_curtiss_weights, legendre_gauss_weights

from halfwave.numerics import untransformed

SphereGrid = Literal["equiangular", "legendre-gauss"]
SPHERE_GRIDS: tuple[SphereGrid, ...] = ("equiangular", "legendre-gauss")
_RULES = {"equiangular": clenshaw_curtiss_weights, "legendre-gauss": legendre_gauss_weights}


# What is kept is made outside transforms of torch.func: it outlives them.
@lru_cache(maxsize=16)
def latitudes(kind: SphereGrid, count: int) -> tuple[Tensor, Tensor]:
    """Colatitudes θ from the north pole to the south and the weights of their quadrature (sin θ dθ), float64."""
    with untransformed():
        return _latitudes(kind, count)


def _latitudes(kind: SphereGrid, count: int) -> tuple[Tensor, Tensor]:
    cosines, weights = (torch.as_tensor(values) for values in _RULES[kind](count, -1.0, 1.0))
    return cosines.flip(0).clamp(-1, 1).arccos(), weights  # which north and south have in common


@lru_cache(maxsize=16)
def interpolation(kind: SphereGrid, count: int, size: int) -> tuple[Tensor, Tensor]:
    """Matrices (size, count) from `count` latitudes to `size` others of a kind: of even and of odd waves, float64."""
    with untransformed():
        return _interpolation(kind, count, size)


def _interpolation(kind: SphereGrid, count: int, size: int) -> tuple[Tensor, Tensor]:
    theta, weights = latitudes(kind, count)
    at, _ = latitudes(kind, size)
    signs = 1.0 - 2.0 * (torch.arange(count) % 2)
    if kind == "legendre-gauss":
        barycentric = signs * theta.sin() * weights.sqrt()
        even = _lagrange(theta, barycentric, at)
        return even, at.sin()[:, None] * even / theta.sin()
    ends = signs.clone()
    ends[[0, -1]] /= 2
    inner = theta[1:-1]
    odd = _lagrange(inner, (signs * theta.sin() ** 2)[1:-1], at)
    odd = at.sin()[:, None] * odd / inner.sin()
    return _lagrange(theta, ends, at), torch.nn.functional.pad(odd, (1, 1))


def _lagrange(theta: Tensor, barycentric: Tensor, at: Tensor) -> Tensor:
    """Values at cos `at` of the polynomials that are 1 at one cos `theta` and 0 at the others."""
    # cos a - cos b as a product: near a pole the cosines themselves are all 1.
    gaps = -2 * ((at[:, None] + theta) / 2).sin() * ((at[:, None] - theta) / 2).sin()
    shared = (at[:, None] - theta).abs() < 1e-12
    terms = barycentric / torch.where(shared, torch.ones_like(gaps), gaps)
    values = terms / terms.sum(dim=1, keepdim=True)
    return torch.where(shared.any(dim=1, keepdim=True), shared.to(values), values)
