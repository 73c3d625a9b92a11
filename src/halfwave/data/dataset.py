"""A dataset on grids: pairs of fields in two splits, read when asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfwave.data.arrays import Bounds, PairSource, PieceSource
from halfwave.data.claims import check_memory
from halfwave.data.placement import Placement
from halfwave.data.windows import Windows
from halfwave.domains import Domain
from halfwave.errors import InputError

Index = int | slice | Sequence[int] | np.ndarray | Tensor


class Split:
    """N pairs (x, y) of fields, C x grid and O x grid.

    `split[3]` is one pair; `split[2:10]`, `split[[5, 1, 1]]` are batches (B x C x grid, B x O x grid).
    Values are float32 tensors, read from the file at that moment, and refused when they hold NaN or infinity.
    """

    lasting = True
    """Whether the samples are the same in every epoch."""

    def __init__(self, path: Path, name: str, source: PairSource, domain: Domain) -> None:
        self.path, self.name, self.domain = path, name, domain
        self._source = source
        self.windows = source if isinstance(source, Windows) else None
        """Of a file in time that is read so: the windows, and behind them the trajectories."""
        self._x_shape, self._y_shape = source.shapes
        check_shapes(path, name, source)

    def __len__(self) -> int:
        return self._x_shape[0]

    @property
    def in_channels(self) -> int:
        return self._x_shape[1]

    @property
    def out_channels(self) -> int:
        return self._y_shape[1]

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(self._x_shape[2:])

    def __getitem__(self, index: Index) -> tuple[Tensor, Tensor]:
        indices, single = resolve_index(index, len(self))
        self._check_memory(len(indices))
        x_values, y_values = self._source.read(indices)
        x, y = self._checked("x", x_values, indices), self._checked("y", y_values, indices)
        return (x[0], y[0]) if single else (x, y)

    def piece(self, bounds: Bounds) -> Split:
        """The same samples, of each the points (start, stop) along every axis of the grid alone."""
        made = copy(self)
        made._source = PieceSource(self._source, bounds)
        made._x_shape, made._y_shape = made._source.shapes
        return made

    def in_memory(self) -> Split:
        """The same samples with every state of their trajectories read once; InputError for other samples."""
        if self.windows is None:
            raise InputError(f"{self.path}: {self.name} has no windows of trajectories")
        check_memory(f"{self.path}: all states of {self.name}", 4 * math.prod(self.windows.source.states.shape))
        return Split(self.path, self.name, self.windows.in_memory(), self.domain)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: the samples of a file are the same in each, those of a `LiveSplit` are not."""
        return

    def _check_memory(self, count: int) -> None:
        needed = 4 * count * (math.prod(self._x_shape[1:]) + math.prod(self._y_shape[1:]))
        check_memory(f"{self.path}: {count} samples of {self.name}", needed)

    def _checked(self, which: str, values: np.ndarray, indices: np.ndarray) -> Tensor:
        values = np.ascontiguousarray(values, dtype=np.float32)
        finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        if not finite.all():
            sample = int(indices[int(np.argmin(finite))])
            raise InputError(f"{self.path}: {self.name}/{which} holds NaN or infinity in sample {sample}")
        return torch.from_numpy(values)

    def __repr__(self) -> str:
        return f"Split({self.name}: {len(self)} x {self.in_channels} -> {self.out_channels} on {_text(self.grid)})"


def check_shapes(path: Path, name: str, source: PairSource) -> None:
    """InputError unless x and y are N x C x grid with 1 to 3 grid axes, and agree in N and grid."""
    x, y = source.shapes
    found = f"{path}: {name} has x of shape {_text(x)} and y of shape {_text(y)}"
    if not 3 <= len(x) <= 5 or len(x) != len(y):
        raise InputError(f"{found}; N x C x grid with 1 to 3 grid axes is expected")
    if x[0] != y[0] or x[2:] != y[2:]:
        raise InputError(f"{found}; they must agree in samples and grid")
    if 0 in x or 0 in y:
        raise InputError(f"{found}; there is no data in it")


def resolve_index(index: Index, size: int) -> tuple[np.ndarray, bool]:
    """Any way to name samples -> their numbers in 0 .. size-1, and whether a single one was meant."""
    if isinstance(index, slice):
        return np.arange(size)[index], False
    if isinstance(index, Tensor):
        index = index.detach().cpu().numpy()
    single = np.ndim(index) == 0
    numbers = np.atleast_1d(np.asarray(index))
    if numbers.dtype == bool and numbers.shape == (size,):
        return np.flatnonzero(numbers), False
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError(f"samples are chosen by a number, a slice or a list of numbers, not by {index!r}")
    numbers = numbers.astype(np.int64)
    if ((numbers < -size) | (numbers >= size)).any():
        raise IndexError(f"sample {index} is out of range; there are {size}")
    return np.where(numbers < 0, numbers + size, numbers), single


@dataclass(frozen=True)
class Dataset:
    """Train and test splits of one problem, with what the file says about itself."""

    path: Path
    metadata: dict[str, Any]
    placement: Placement
    train: Split
    test: Split

    def __post_init__(self) -> None:
        for split in (self.train, self.test):
            found = (split.in_channels, split.out_channels, len(split.grid))
            if found != (self.in_channels, self.out_channels, len(self.grid)):
                raise InputError(f"{self.path}: train and test do not fit together: {self.train!r}, {self.test!r}")

    @property
    def domain(self) -> Domain:
        """Where its fields live."""
        return self.placement.domain

    def understood(self) -> str:
        """How the file was read, in one line: samples, channels, grid, domain, keys."""
        keys, note, windows = self.metadata.get("keys"), self.metadata.get("note"), self.train.windows
        channels = self.model_channels
        parts = [
            f"{self.n_train} + {self.n_test} {'samples' if windows is None else 'windows'}",
            f"{channels[0]} -> {channels[1]} channels on {_text(self.grid)}",
            f"domain {self.placement}",
        ]
        parts += [f"keys {', '.join(keys)}"] if keys else []
        if windows is not None:
            span = windows.window
            parts += [f"{windows.source.count} trajectories of {windows.source.length} states to train on"]
            parts += [f"history {span.history}, horizon {span.horizon}, stride {span.stride}"]
        elif "steps" in self.metadata:
            parts += [f"steps {self.metadata['steps']}"]
        return f"{self.path.name}: {'; '.join([*parts, *([note] if note else [])])}"

    @property
    def n_train(self) -> int:
        return len(self.train)

    @property
    def n_test(self) -> int:
        return len(self.test)

    @property
    def in_channels(self) -> int:
        return self.train.in_channels

    @property
    def out_channels(self) -> int:
        return self.train.out_channels

    @property
    def model_channels(self) -> tuple[int, int]:
        """Channels that a model of this data takes and gives."""
        windows = self.train.windows
        return self.in_channels, self.out_channels if windows is None else windows.source.channels

    @property
    def grid(self) -> tuple[int, ...]:
        """Points along each axis of the train split; the test split may be finer."""
        return self.train.grid


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
