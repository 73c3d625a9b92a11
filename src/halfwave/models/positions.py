"""Positional grid: the coordinates of the grid points as extra channels."""

from __future__ import annotations

import torch
from torch import Tensor


def append_grid(x: Tensor) -> Tensor:
    """(B, C, *grid) to (B, C + d, *grid): coordinate j/N in [0, 1) along each axis, in the dtype of `x`."""
    batch, grid = len(x), x.shape[2:]
    axes = [torch.arange(n, device=x.device, dtype=x.dtype) / n for n in grid]
    coordinates = [c.expand(batch, 1, *grid) for c in torch.meshgrid(*axes, indexing="ij")]
    return torch.cat([x, *coordinates], dim=1)
