"""Waves of a periodic axis: the last one of a tensor."""

from __future__ import annotations

import torch
from torch import Tensor


def to_waves(u: Tensor) -> Tensor:
    """Amplitudes a_k, k = 0 .. n // 2, of the interpolant u(x) = Re sum_k a_k e^{2 pi i k x} through u_j = u(j / n)."""
    a_hat = torch.fft.rfft(u, dim=-1, norm="forward")
    # The highest wave of an even grid is a cosine alone, and as the constant it stands for itself only.
    a_hat[..., 1 : (u.shape[-1] + 1) // 2] *= 2
    return a_hat


def from_waves(a_hat: Tensor, size: int) -> Tensor:
    """The interpolant at j / size. Waves that differ by a multiple of `size` are equal there: they add up."""
    turns = -(-a_hat.shape[-1] // size)
    padded = torch.nn.functional.pad(a_hat, (0, turns * size - a_hat.shape[-1]))
    return torch.fft.ifft(padded.unflatten(-1, (turns, size)).sum(-2), dim=-1, norm="forward").real


def interpolate_periodic(u: Tensor, dim: int, size: int) -> Tensor:
    """Values at `size` points of a periodic axis: the field's own where it has them, else of its interpolant."""
    n = u.shape[dim]
    if n % size == 0:
        return u[(*[slice(None)] * dim, slice(None, None, n // size))]
    return from_waves(to_waves(u.movedim(dim, -1)), size).movedim(-1, dim)
