"""Arrays that stay in their file until samples are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import h5py
import numpy as np

from halfwave.data.h5_reading import H5Reader, require_numeric
from halfwave.data.refusals import reading
from halfwave.errors import InputError


class LazyArray(Protocol):
    """N samples along the first axis; `read` loads some of them."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self, indices: np.ndarray) -> np.ndarray:
        """Samples at `indices` (any order, repeats allowed, each within 0 .. N-1) as a new array."""
        ...


class HeldArray:
    """An array that is in memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self.values[indices]


class PairSource(Protocol):
    """Where a split gets its pairs from: a file, or a solver that makes them when asked."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of x and of y, N samples along the first axis of each."""
        ...

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class ArrayPair:
    """Inputs and outputs from two arrays."""

    x: LazyArray
    y: LazyArray

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.x.shape, self.y.shape

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = self.x.read(indices)
        return x, x if self.y is self.x else self.y.read(indices)

    def read_pair_piece(self, indices: np.ndarray, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
        part = (slice(None), *(slice(*bound) for bound in bounds))
        return read_piece(self.x, indices, part), read_piece(self.y, indices, part)


Bounds = tuple[tuple[int, int], ...]
"""Points (start, stop) along each axis of a grid."""
Part = tuple[slice, ...]
"""What is taken of each axis of an array after that of the samples."""


def read_piece(array: LazyArray, indices: np.ndarray, part: Part) -> np.ndarray:
    """`part` of some samples: of an array that can (`read_piece`) without reading the rest."""
    piecewise = getattr(array, "read_piece", None)
    if piecewise is not None:
        return piecewise(indices, part)
    return array.read(indices)[(slice(None), *part)]


def read_pair_piece(source: PairSource, indices: np.ndarray, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """The points `bounds` of some samples, all channels of them."""
    piecewise = getattr(source, "read_pair_piece", None)
    if piecewise is not None:
        return piecewise(indices, bounds)
    # One at a time: what is cut away of a sample is gone before the next is read.
    part = (slice(None), slice(None), *(slice(*bound) for bound in bounds))
    pairs = [source.read(indices[i : i + 1]) for i in range(len(indices))]
    x, y = ([side[part].copy() for side in sides] for sides in zip(*pairs, strict=True))
    return np.concatenate(x), np.concatenate(y)


@dataclass(frozen=True)
class PieceSource:
    """Of every sample the points `bounds` along each axis of the grid: what one of several processes has of it.

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


MAPPED_LIMIT = 16 * 2**20
"""Bytes read through a memory map after which it is made anew. Until then pages that were touched stay resident, and
around each the kernel maps up to some ten times as many."""


class H5Array:
    """A numeric HDF5 dataset whose first axis counts samples; with `step`, one index of its second axis (time)."""

    def __init__(self, reader: H5Reader, key: str, step: int | None = None) -> None:
        self.reader, self.key, self.step = reader, key, step
        stored = require_numeric(reader.handle, key, reader.path).shape
        if step is not None:
            self.step = require_step(step, stored, f"{reader.path}: '{key}'")
            stored = (stored[0], *stored[2:])
        self.shape = stored

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self.read_piece(indices, ())

    def read_piece(self, indices: np.ndarray, part: Part) -> np.ndarray:
        step = () if self.step is None else (self.step,)
        with reading(self.reader.path, self.key):
            return read_rows(self.reader.handle[self.key], indices, (*step, *part))


def require_step(step: int, shape: tuple[int, ...], where: str) -> int:
    """A time step counted from either end -> its number, when axis 1 of `shape` is time."""
    if len(shape) < 3:
        raise InputError(f"{where} has shape {shape}; samples x time x grid is expected")
    if not -shape[1] <= step < shape[1]:
        raise InputError(f"{where} has {shape[1]} time steps; step {step} was asked for")
    return step % shape[1]


def read_rows(dataset: h5py.Dataset, indices: np.ndarray, rest: tuple[int | slice, ...] = ()) -> np.ndarray:
    """Rows of an HDF5 dataset in any order (h5py wants them sorted and each once), at `rest` of the next axes."""
    if len(indices) and np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
        return dataset[(slice(int(indices[0]), int(indices[0]) + len(indices)), *rest)]
    unique, inverse = np.unique(indices, return_inverse=True)
    return dataset[(unique, *rest)][inverse]


@dataclass(frozen=True)
class WithChannel:
    """N x grid -> N x 1 x grid."""

    array: LazyArray

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.array.shape[0], 1, *self.array.shape[1:])

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self.array.read(indices)[:, None]

    def read_piece(self, indices: np.ndarray, part: Part) -> np.ndarray:
        return read_piece(self.array, indices, part[1:])[:, None][:, part[0]]


@dataclass(frozen=True)
class ChannelsFirst:
    """N x grid x components (one or more axes of them) -> N x C x grid."""

    array: LazyArray
    components: int

    @property
    def shape(self) -> tuple[int, ...]:
        stored, cut = self.array.shape, len(self.array.shape) - self.components
        return (stored[0], math.prod(stored[cut:]), *stored[1:cut])

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self._first(self.array.read(indices))

    def read_piece(self, indices: np.ndarray, part: Part) -> np.ndarray:
        stored = (*part[1:], *[slice(None)] * self.components)
        return self._first(read_piece(self.array, indices, stored))[:, part[0]]

    def _first(self, values: np.ndarray) -> np.ndarray:
        cut = values.ndim - self.components
        flat = values.reshape(*values.shape[:cut], math.prod(values.shape[cut:]))
        return np.moveaxis(flat, -1, 1)


@dataclass(frozen=True)
class Stacked:
    """Several arrays N x C_i x grid as one, channel after channel."""

    arrays: tuple[LazyArray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.arrays[0].shape
        return (first[0], sum(array.shape[1] for array in self.arrays), *first[2:])

    def read(self, indices: np.ndarray) -> np.ndarray:
        return np.concatenate([array.read(indices) for array in self.arrays], axis=1)

    def read_piece(self, indices: np.ndarray, part: Part) -> np.ndarray:
        every = (slice(None), *part[1:])
        return np.concatenate([read_piece(array, indices, every) for array in self.arrays], axis=1)[:, part[0]]


@dataclass(frozen=True)
class Rows:
    """Samples start .. stop-1 of a source."""

    source: PairSource
    start: int
    stop: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        x, y = self.source.shapes
        return (self.stop - self.start, *x[1:]), (self.stop - self.start, *y[1:])

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.source.read(indices + self.start)

    def read_pair_piece(self, indices: np.ndarray, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
        return read_pair_piece(self.source, indices + self.start, bounds)


@dataclass(frozen=True)
class Joined:
    """The samples of several sources, one source after the other."""

    sources: tuple[PairSource, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        x, y = self.sources[0].shapes
        count = sum(source.shapes[0][0] for source in self.sources)
        return (count, *x[1:]), (count, *y[1:])

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._joined(indices, self.shapes, lambda source, rows: source.read(rows))

    def read_pair_piece(self, indices: np.ndarray, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
        grid = tuple(stop - start for start, stop in bounds)
        x, y = ((*shape[:2], *grid) for shape in self.shapes)
        return self._joined(indices, (x, y), lambda source, rows: read_pair_piece(source, rows, bounds))

    def _joined(
        self,
        indices: np.ndarray,
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
        read: Callable[[PairSource, np.ndarray], tuple[np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Samples of these shapes, each from its source."""
        ends = np.cumsum([source.shapes[0][0] for source in self.sources])
        owner = np.searchsorted(ends, indices, side="right")
        x, y = (np.empty((len(indices), *shape[1:]), dtype=np.float32) for shape in shapes)
        for number in np.unique(owner):
            mine = owner == number
            start = ends[number - 1] if number else 0
            x[mine], y[mine] = read(self.sources[number], indices[mine] - start)
        return x, y
