"""Is an input like the training data? Four numbers of a field, and their spread over training samples.

The page computes the same four of a drawing (`familiar.js`) and says so where one lies far outside.
"""

from __future__ import annotations

import torch
from torch import Tensor


def features(x: Tensor, low: float, high: float) -> Tensor:
    """(B, H, W) to (B, 4), of the values scaled from [low, high] to [0, 1]:

    mean; roughness, the mean step between neighbours; large scales, the spread of 4 x 4 block means; border's mean.
    """
    v = ((x - low) / (high - low)).double()
    steps = torch.cat([v.diff(dim=1).abs().flatten(1), v.diff(dim=2).abs().flatten(1)], dim=1)
    edges = torch.cat([v[:, 0], v[:, -1], v[:, 1:-1, 0], v[:, 1:-1, -1]], dim=1)
    blocks = _block_means(v).std(dim=1, correction=0)
    return torch.stack([v.mean((1, 2)), steps.mean(1), blocks, edges.mean(1)], dim=1)


def _block_means(v: Tensor) -> Tensor:
    """(B, 16): a point belongs to the block floor(4 i / H), floor(4 j / W)."""
    rows, columns = (torch.arange(n) * 4 // n for n in v.shape[1:])
    number = (rows[:, None] * 4 + columns).flatten()
    sums = torch.zeros(len(v), 16, dtype=v.dtype).index_add_(1, number, v.flatten(1))
    return sums / torch.bincount(number, minlength=16)
