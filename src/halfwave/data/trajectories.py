"""Trajectories: states of N systems in time, read when asked for, as pairs of two states or as windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from halfwave.data.arrays import LazyArray
from halfwave.data.h5_reading import H5Reader, require_numeric
from halfwave.data.refusals import reading
from halfwave.errors import InputError


class States(Protocol):
    """N trajectories of T states C x grid."""

    @property
    def shape(self) -> tuple[int, ...]:
        """N x T x C x grid."""
        ...

    def read(self, index: int, steps: slice) -> np.ndarray:
        """Some states of one trajectory, steps x C x grid."""
        ...


class H5States:
    """States in one HDF5 dataset N x T x C x grid; with `components`, N x T x grid and so many axes of channels."""

    def __init__(self, reader: H5Reader, key: str, components: int | None = None) -> None:
        self.reader, self.key, self.components = reader, key, components
        stored = require_numeric(reader.handle, key, reader.path).shape
        if not 3 <= len(stored) - (1 if components is None else components) <= 5:
            raise InputError(
                f"{reader.path}: '{key}' has shape {stored}; trajectories x steps x channels x grid expected"
            )
        self.shape = stored if components is None else (*stored[:2], *_channels_first(stored[2:], components))

    def read(self, index: int, steps: slice) -> np.ndarray:
        with reading(self.reader.path, self.key):
            values = self.reader.handle[self.key][index, steps]
        if self.components is None:
            return values
        cut = values.ndim - self.components
        return np.moveaxis(values.reshape(*values.shape[:cut], -1), -1, 1)


def _channels_first(shape: tuple[int, ...], components: int) -> tuple[int, ...]:
    cut = len(shape) - components
    return (int(np.prod(shape[cut:], dtype=int)), *shape[:cut])


@dataclass(frozen=True)
class StackedStates:
    """Several states of the same systems as one, channel after channel."""

    parts: tuple[States, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.parts[0].shape
        return (*first[:2], sum(part.shape[2] for part in self.parts), *first[3:])

    def read(self, index: int, steps: slice) -> np.ndarray:
        return np.concatenate([part.read(index, steps) for part in self.parts], axis=1)


class MemoryStates:
    """States that are in memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def read(self, index: int, steps: slice) -> np.ndarray:
        return self.values[index, steps]


@dataclass(frozen=True)
class Constant:
    """Parameters N x Q as fields that are constant over the grid, N x Q x grid."""

    parameters: LazyArray
    grid: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.parameters.shape, *self.grid)

    def read(self, indices: np.ndarray) -> np.ndarray:
        values = self.parameters.read(indices)
        return np.broadcast_to(values.reshape(*values.shape, *[1] * len(self.grid)), (*values.shape, *self.grid))


@dataclass(frozen=True)
class Trajectories:
    """N trajectories, and what rides along with each: fields N x E x grid that do not change in time."""

    states: States
    beside: LazyArray | None = None

    @property
    def count(self) -> int:
        return self.states.shape[0]

    @property
    def length(self) -> int:
        """States of each trajectory."""
        return self.states.shape[1]

    @property
    def channels(self) -> int:
        """Of a state."""
        return self.states.shape[2]

    @property
    def grid(self) -> tuple[int, ...]:
        return self.states.shape[3:]

    @property
    def extra(self) -> int:
        """Channels of what rides along."""
        return 0 if self.beside is None else self.beside.shape[1]

    def read_beside(self, indices: np.ndarray) -> np.ndarray:
        """What rides along with some trajectories, B x E x grid."""
        if self.beside is None:
            return np.zeros((len(indices), 0, *self.grid), np.float32)
        return self.beside.read(indices)


class _Joined:
    """States, or what rides along, of several files as one: `owner` finds the file and the place in it."""

    def __init__(self, counts: list[int]) -> None:
        self.ends = np.cumsum(counts)

    def owner(self, index: int) -> tuple[int, int]:
        number = int(np.searchsorted(self.ends, index, side="right"))
        return number, index - (int(self.ends[number - 1]) if number else 0)


class JoinedStates(_Joined):
    """The trajectories of several sources, one source after the other."""

    def __init__(self, parts: list[States]) -> None:
        super().__init__([part.shape[0] for part in parts])
        self.parts = parts
        self.shape = (int(self.ends[-1]), min(part.shape[1] for part in parts), *parts[0].shape[2:])

    def read(self, index: int, steps: slice) -> np.ndarray:
        number, place = self.owner(index)
        return self.parts[number].read(place, steps)


class JoinedArrays(_Joined):
    """The samples of several arrays, one array after the other."""

    def __init__(self, parts: list[LazyArray]) -> None:
        super().__init__([part.shape[0] for part in parts])
        self.parts = parts
        self.shape = (int(self.ends[-1]), *parts[0].shape[1:])

    def read(self, indices: np.ndarray) -> np.ndarray:
        found = [self.owner(int(index)) for index in indices]
        return np.concatenate([self.parts[number].read(np.array([place])) for number, place in found])


def join_trajectories(parts: list[Trajectories]) -> Trajectories:
    """All trajectories of several files; of states beyond those that every file has, none."""
    beside = [part.beside for part in parts if part.beside is not None]
    return Trajectories(JoinedStates([part.states for part in parts]), JoinedArrays(beside) if beside else None)


@dataclass(frozen=True)
class StatePairs:
    """Two states of each trajectory as input and output, with what rides along after the input."""

    source: Trajectories
    steps: tuple[int, int]

    def __post_init__(self) -> None:
        for step in self.steps:
            if not -self.source.length <= step < self.source.length:
                raise InputError(f"there are {self.source.length} time steps; step {step} was asked for")

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        source = self.source
        x, y = source.channels + source.extra, source.channels
        return (source.count, x, *source.grid), (source.count, y, *source.grid)

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = (np.stack([self._state(int(i), step) for i in indices]) for step in self.steps)
        return np.concatenate([x, self.source.read_beside(indices)], axis=1), y

    def _state(self, index: int, step: int) -> np.ndarray:
        at = step % self.source.length
        return self.source.states.read(index, slice(at, at + 1))[0]
