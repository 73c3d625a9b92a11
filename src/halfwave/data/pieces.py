"""Pieces of samples: what one of several processes has of each field, read from the file without the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfwave.data.arrays import Bounds, PairSource, read_pair_piece


@dataclass(frozen=True)
class PieceSource:
    """Of every sample the points `bounds` (start, stop) along each axis of the grid.

    From HDF5 nothing else is read, where the samples are as they stand in the file; resampled ones and those of other
    formats are read sample by sample and cut.
    """

    source: PairSource
    bounds: Bounds

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        grid = tuple(stop - start for start, stop in self.bounds)
        x, y = self.source.shapes
        return (*x[:2], *grid), (*y[:2], *grid)

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return read_pair_piece(self.source, indices, self.bounds)
