"""Arrays that stay in their file until samples are asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from halfwave.errors import InputError


class LazyArray(Protocol):
    """N samples along the first axis; `read` loads some of them."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self, indices: np.ndarray) -> np.ndarray:
        """Samples at `indices` (any order, repeats allowed, each within 0 .. N-1) as a new array."""
        ...


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
        return self.x.read(indices), self.y.read(indices)


class H5Reader:
    """An HDF5 file opened on first use, anew in each process, so that it survives fork and pickling."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: h5py.File | None = None
        self._process = -1

    @property
    def handle(self) -> h5py.File:
        if self._handle is None or self._process != os.getpid():
            self._handle = open_h5(self.path)
            self._process = os.getpid()
        return self._handle

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_handle": None, "_process": -1}


def open_h5(path: Path) -> h5py.File:
    """Open for reading; InputError in one line when the file is missing, empty, truncated or not HDF5."""
    require_file(path)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        reason = "is truncated" if "truncated" in str(error) else "is not a readable HDF5 file"
        raise InputError(f"{path} {reason}") from error


def require_file(path: Path) -> None:
    """InputError unless `path` is a readable file with something in it."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.is_dir():
        raise InputError(f"{path} is a directory; a dataset file is expected")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: permission denied")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes)")


class H5Array:
    """A numeric HDF5 dataset whose first axis counts samples."""

    def __init__(self, reader: H5Reader, key: str) -> None:
        self.reader = reader
        self.key = key
        self.shape = require_numeric(reader.handle, key, reader.path).shape

    def read(self, indices: np.ndarray) -> np.ndarray:
        dataset = self.reader.handle[self.key]
        try:
            return read_rows(dataset, indices)
        except OSError as error:
            raise InputError(f"{self.reader.path}: {self.key} cannot be read, the file is damaged") from error


def require_numeric(file: h5py.File, key: str, path: Path) -> h5py.Dataset:
    """The dataset `key`; InputError when it is absent, a group, or holds anything but real numbers."""
    found = file.get(key)
    if not isinstance(found, h5py.Dataset):
        raise InputError(f"{path} has no dataset '{key}'; it holds {', '.join(sorted(file)) or 'nothing'}")
    if found.dtype.kind not in "fiub":
        raise InputError(f"{path}: '{key}' has type {found.dtype}; real numbers are expected")
    return found


def read_rows(dataset: h5py.Dataset, indices: np.ndarray) -> np.ndarray:
    """Rows of an HDF5 dataset in any order: h5py itself wants them sorted and each once."""
    if len(indices) and np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
        return dataset[int(indices[0]) : int(indices[0]) + len(indices)]
    unique, inverse = np.unique(indices, return_inverse=True)
    return dataset[unique][inverse]
