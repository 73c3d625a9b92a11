"""Associated Legendre functions and quadrature on the sphere, in float64.

Functions are 4π-normalised: the harmonic Y_lm(θ, φ) = P_lm(cos θ) e^{imφ} has mean square 1 over the sphere, so
P_00 = 1 and the coefficients of a field v, means of v against Y_lm, are bounded by max|v| (Cauchy-Schwarz).
torch-harmonics' "ortho" functions are these divided by sqrt(4π); both carry the Condon-Shortley phase (-1)^m.

Two grids of colatitudes θ from the north pole to the south: ``"equiangular"`` (poles included, Clenshaw-Curtis weights,
exact for polynomials in cos θ of degree n-1) and ``"legendre-gauss"`` (exact up to degree 2n-1).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

SphereGrid = Literal["equiangular", "legendre-gauss"]
SPHERE_GRIDS = ("equiangular", "legendre-gauss")


def quadrature(n: int, grid: SphereGrid) -> tuple[Tensor, Tensor]:
    """Colatitudes (n,) in [0, π], rising, and weights (n,) of the mean over cos θ (their sum is 1)."""
    if grid == "equiangular":
        return _clenshaw_curtis(n)
    if grid == "legendre-gauss":
        nodes, weights = np.polynomial.legendre.leggauss(n)
        return torch.from_numpy(np.arccos(nodes[::-1])), torch.from_numpy(weights[::-1] / 2)
    raise ValueError(f"unknown grid {grid!r} of the sphere: expected one of {', '.join(SPHERE_GRIDS)}")


def _clenshaw_curtis(n: int) -> tuple[Tensor, Tensor]:
    """w_k = c_k/(2N) (1 - sum_{j=1}^{N/2} b_j cos(2jθ_k) / (4j² - 1)) at θ_k = πk/N, N = n-1.

    c is 1 at the poles and 2 between them, b is 2 but for 1 at j = N/2 (Waldvogel 2006, equation 3.6).
    """
    if n < 2:
        raise ValueError(f"an equiangular grid holds both poles: it needs at least 2 latitudes, got {n}")
    last = n - 1
    k, j = torch.arange(n), torch.arange(1, last // 2 + 1)
    b = torch.where(2 * j == last, 1.0, 2.0).double()
    # Angles reduced in integers, so that large j k lose nothing.
    angles = (2 * k[:, None] * j % (2 * last)).double() * (math.pi / last)
    weights = (1 - (angles.cos() * (b / (4.0 * j.double() ** 2 - 1))).sum(dim=1)) / last
    weights[[0, -1]] /= 2
    return k.double() * (math.pi / last), weights


def legendre_functions(orders: range, degrees: int, theta: Tensor) -> Tensor:
    """P_lm(cos θ) for m in `orders` and l < `degrees`: shape (orders, degrees, θ), zero where l < m.

    The three-term recurrence in l at fixed m, upwards from P_mm, which is stable:
        P_lm = a_lm (cos θ P_{l-1,m} - b_lm P_{l-2,m}),
        a_lm² = (4l² - 1) / (l² - m²),   b_lm² = ((l-1)² - m²) / (4(l-1)² - 1).
    P_mm, about (sin θ)^m, underflows in float64 only where P_lm stays negligible for every l below 1,900.
    All orders advance together: `degrees` vector steps, not one for each pair (l, m).
    """
    cos = theta.cos()
    m = torch.tensor(list(orders), dtype=torch.float64)[:, None]
    diagonal = _diagonal(orders, theta)
    table = torch.zeros(len(orders), degrees, len(theta), dtype=torch.float64)
    for l in range(degrees):  # noqa: E741 - the mathematics calls it l
        started = max(0, min(l - orders.start, len(orders)))
        if started:
            squares = m[:started] ** 2
            a = ((4.0 * l * l - 1) / (l * l - squares)).sqrt()
            row = cos * table[:started, l - 1]
            if l > 1:
                b = (((l - 1.0) ** 2 - squares).clamp(min=0) / (4 * (l - 1.0) ** 2 - 1)).sqrt()
                row -= b * table[:started, l - 2]
            table[:started, l] = a * row
        if l in orders:
            table[l - orders.start, l] = diagonal[l - orders.start]
    return table


def _diagonal(orders: range, theta: Tensor) -> Tensor:
    """P_mm = (-1)^m sqrt(prod_{k<=m} (2k+1)/(2k)) (sin θ)^m, shape (orders, θ)."""
    sin, value = theta.sin(), torch.ones_like(theta)
    rows = []
    for m in range(orders.stop):
        if m > 0:
            value = -math.sqrt((2 * m + 1) / (2 * m)) * sin * value
        if m >= orders.start:
            rows.append(value)
    return torch.stack(rows)
