"""Samples on another grid than the file's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import interpolate

from halfwave.data.arrays import PairSource
from halfwave.errors import InputError

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True)
class Resampled:
    """Every `stride`-th point of each axis, then, with `resolution`, linear interpolation that keeps the end points."""

    source: PairSource
    stride: int = 1
    resolution: int | None = None

    def __post_init__(self) -> None:
        grid = self.source.shapes[0][2:]
        if min(grid, default=2) <= self.stride > 1:
            raise InputError(f"a stride of {self.stride} leaves one point of a grid of {' x '.join(map(str, grid))}")

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        x, y = self.source.shapes
        return self._shape(x), self._shape(y)

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:2], *(self.resolution or -(-points // self.stride) for points in shape[2:]))

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.source.read(indices)
        return self._resample(x), self._resample(y)

    def _resample(self, values: np.ndarray) -> np.ndarray:
        axes = values.ndim - 2
        values = values[(slice(None), slice(None), *[slice(None, None, self.stride)] * axes)]
        if self.resolution is None:
            return values
        tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
        return interpolate(tensor, size=[self.resolution] * axes, mode=_LINEAR[axes], align_corners=True).numpy()
