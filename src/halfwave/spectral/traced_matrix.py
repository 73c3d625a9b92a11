"""Transform matrices by operators of a program, for a grid whose size is known only when the program runs.

The same matrices as in `matrices`, entry by entry: angles are reduced in integers and computed in float64. The kept
frequencies are not free: a program is made for grids that have them all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic
from halfwave.spectral.modes import AxisModes

if TYPE_CHECKING:
    from halfwave.spectral.matrices import Weighting


def traced_matrix(axis: AxisModes, last: bool, weighting: Weighting, arith: Arithmetic) -> Tensor:
    """The analysis matrix of an axis whose `size` may be a symbol."""
    k = torch.arange(axis.first, axis.first + axis.count)
    theta = _angles(k, axis)
    exact = _last(theta, k, axis, weighting) if last else _inner(theta)
    # Entries of size 1 are rounded, the scale is not: as for all matrices of a portable program.
    rounded = exact.to(arith.format.storage).to(arith.compute)
    return rounded / _size(axis) if weighting == "mean" else rounded


def _size(axis: AxisModes) -> Tensor:
    """N as a tensor: exporters know products and remainders of tensors, of symbols only some."""
    return torch.full((), axis.size, dtype=torch.int64)


def _angles(k: Tensor, axis: AxisModes) -> Tensor:
    """θ = 2π (k n mod N) / N, shape (K, N)."""
    n = torch.arange(axis.size)
    return torch.remainder(k[:, None] * n, _size(axis)).double() * (2 * math.pi) / _size(axis)


def _last(theta: Tensor, k: Tensor, axis: AxisModes, weighting: Weighting) -> Tensor:
    cosines, sines = theta.cos().T, -theta.sin().T
    if weighting == "mean":
        return torch.cat([cosines, sines], dim=1)
    # 0 and N/2 stand for themselves alone, and their imaginary parts drop out, as in irfft.
    alone = (k == 0) | (2 * k == _size(axis))
    counted = torch.where(alone, 1.0, 2.0).double()
    return torch.cat([cosines * counted, torch.where(alone, 0.0, 2.0).double() * sines], dim=1)


def _inner(theta: Tensor) -> Tensor:
    c, s = theta.cos(), theta.sin()
    real, imaginary = torch.stack([c, s], dim=2), torch.stack([-s, c], dim=2)
    return torch.cat([real, imaginary]).flatten(1)
