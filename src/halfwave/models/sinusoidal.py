"""Sinusoidal embedding of coordinates, as neuraloperator's: sines and cosines at L frequencies of each coordinate.

transformer:  ω_k = P^(-2k/L)        nerf:  ω_k = 2^k π        k = 0 .. L-1
"""

from __future__ import annotations

import torch
from torch import Tensor

KINDS = ("transformer", "nerf", None)


class CoordinateEmbedding:
    """(n, d) coordinates to (n, 2 L d): [sin(ω_0 x_1), cos(ω_0 x_1), sin(ω_1 x_1), ...]; without a kind, themselves.

    It has no parameters and computes in the dtype of the coordinates: rounded to a half format before the sine, points
    closer than the rounding would be one.

    Args:
        coord_dim: coordinates d of a point.
        kind: ``"transformer"``, ``"nerf"`` or None.
        channels: frequencies L.
        max_positions: P of the transformer's frequencies.
    """

    def __init__(self, coord_dim: int, kind: str | None, channels: int, max_positions: int) -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown position embedding {kind!r}: expected one of {', '.join(map(str, KINDS))}")
        self.kind, self.channels, self.max_positions = kind, channels, max_positions
        self.out_channels = coord_dim if kind is None else 2 * channels * coord_dim

    def __call__(self, points: Tensor) -> Tensor:
        if self.kind is None:
            return points
        angles = points.unsqueeze(-1) * self._frequencies(points.device).to(points.dtype)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)

    def _frequencies(self, device: torch.device) -> Tensor:
        # In float32, as neuraloperator's: another rounding of a frequency is another embedding far from the origin.
        k = torch.arange(self.channels, device=device)
        return 2**k * torch.pi if self.kind == "nerf" else (1 / self.max_positions) ** (k / self.channels * 2)
