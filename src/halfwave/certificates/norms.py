"""The norms that the bounds are written in: of fields, and of weights."""

from __future__ import annotations

import torch
from torch import Tensor

# Singular values in float64 are off by some units in the last place: norms are rounded up by far more.
_OUTWARD = 1.0 + 1e-10


def rms(field: Tensor) -> Tensor:
    """Root mean square over the grid and l2 over channels of each sample: (B, C, *grid) to (B,), in float64."""
    return field.double().square().sum(1).flatten(1).mean(1).sqrt()


def largest_rms(field: Tensor) -> float:
    """The largest `rms` of a batch; nan where a sample has one."""
    return float(rms(field).max())


def matrix_norms(matrices: Tensor) -> tuple[float, float]:
    """(r2, ra): the largest spectral norm of matrices (..., O, C), and of those with moduli for entries."""
    wide = matrices.detach().to(torch.complex128 if matrices.is_complex() else torch.float64)
    spectral = float(torch.linalg.matrix_norm(wide, ord=2).max())
    moduli = float(torch.linalg.matrix_norm(wide.abs(), ord=2).max())
    return spectral * _OUTWARD, max(spectral, moduli) * _OUTWARD


def vector_norm(vector: Tensor | None) -> float:
    """The l2 norm of a bias; 0 where there is none."""
    return 0.0 if vector is None else float(vector.detach().double().norm()) * _OUTWARD
