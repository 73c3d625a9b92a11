"""First derivatives of gridded fields (..., *grid): spectral or by differences, on bounded and periodic axes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from halfwave.errors import InputError

# Third-order one-sided stencil at the two ends, as in neuraloperator's FiniteDiff, so that H1 figures compare.
_EDGE = (-11.0 / 6.0, 3.0, -1.5, 1.0 / 3.0)


def difference(u: Tensor, dim: int, spacing: float) -> Tensor:
    """Second-order central differences along a bounded axis, one-sided ones at its ends."""
    n = u.shape[dim]
    if n < len(_EDGE):
        raise InputError(f"finite differences need at least {len(_EDGE)} points along an axis, got {n}")
    inner = (u.narrow(dim, 2, n - 2) - u.narrow(dim, 0, n - 2)) / 2
    first = sum(weight * u.narrow(dim, i, 1) for i, weight in enumerate(_EDGE))
    last = sum(-weight * u.narrow(dim, n - 1 - i, 1) for i, weight in enumerate(_EDGE))
    return torch.cat([first, inner, last], dim) / spacing  # type: ignore[list-item]


def periodic_difference(u: Tensor, dim: int, spacing: float) -> Tensor:
    """Second-order central differences along a periodic axis."""
    return (u.roll(-1, dim) - u.roll(1, dim)) / (2 * spacing)


def spectral(u: Tensor, dim: int, length: float) -> Tensor:
    """The derivative of the trigonometric interpolant: exact for band-limited periodic fields.

    On an even grid the Nyquist mode has no derivative that is real on the grid; it gets zero.
    """
    n = u.shape[dim]
    u_hat = torch.fft.rfft(u, dim=dim)
    frequency = torch.arange(n // 2 + 1, device=u.device, dtype=u.dtype)
    if n % 2 == 0:
        frequency[-1] = 0
    shape = [1] * u.ndim
    shape[dim] = -1
    factor = (2 * math.pi / length) * frequency.reshape(shape)
    return torch.fft.irfft(torch.complex(-u_hat.imag * factor, u_hat.real * factor), n=n, dim=dim)


def on_sphere(u: Tensor, colatitude: Tensor) -> tuple[Tensor, Tensor]:
    """The surface gradient (∂u/∂θ, 1/sin θ ∂u/∂φ) on the unit sphere, u of shape (..., latitude, longitude).

    `colatitude` θ holds the latitudes' angles in [0, π], in any monotone order and spacing (Gauss or equiangular);
    θ-derivatives are second-order differences on that grid, φ-derivatives spectral. On a pole, where longitude has no
    meaning, the second component is zero.
    """
    theta = colatitude.to(u)
    if theta.shape != (u.shape[-2],):
        raise InputError(f"a field with {u.shape[-2]} latitudes was given {theta.numel()} colatitudes")
    (north_south,) = torch.gradient(u, spacing=(theta,), dim=-2, edge_order=2)
    sine = theta.sin()
    inverse = torch.where(sine > 1e-6, 1 / sine.clamp(min=1e-6), torch.zeros_like(sine))
    return north_south, spectral(u, u.ndim - 1, 2 * math.pi) * inverse[:, None]
