"""Samples on another grid than the file's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from halfwave.data.arrays import PairSource
from halfwave.domains import Domain
from halfwave.errors import InputError


@dataclass(frozen=True)
class Resampled:
    """Every `stride`-th point of each axis, then, with `resolution`, that many a side, between points as `whole` says.

    `whole` is the domain of the source's fields; what is taken of them lives in `domain`.
    """

    source: PairSource
    whole: Domain
    stride: int = 1
    resolution: int | None = None

    def __post_init__(self) -> None:
        grid = self._grid
        if min(grid, default=2) <= self.stride > 1:
            raise InputError(f"a stride of {self.stride} leaves one point of a grid of {' x '.join(map(str, grid))}")

    @property
    def domain(self) -> Domain:
        return self.whole.every(self.stride, self._grid)

    @property
    def _grid(self) -> tuple[int, ...]:
        return self.source.shapes[0][2:]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        x, y = self.source.shapes
        return self._shape(x), self._shape(y)

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.resolution is not None:
            return (*shape[:2], *self.whole.grid(self.resolution))
        return (*shape[:2], *(-(-points // self.stride) for points in shape[2:]))

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.source.read(indices)
        return self._resample(x), self._resample(y)

    def _resample(self, values: np.ndarray) -> np.ndarray:
        axes = values.ndim - 2
        values = values[(slice(None), slice(None), *[slice(None, None, self.stride)] * axes)]
        if self.resolution is None:
            return values
        tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
        return self.domain.resample(tensor, self.whole.grid(self.resolution)).numpy()
