"""Fields without truth: inputs to predict from, and predictions, in HDF5 or .npy files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np
import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.files import written_aside

NAMES = ("x", "test/x")


class Fields:
    """N fields C x grid of a file, read when asked for: `fields[2:10]` is a float32 tensor."""

    def __init__(self, path: Path, shape: tuple[int, ...], read: Callable[[slice], np.ndarray]) -> None:
        if not 3 <= len(shape) <= 5 or 0 in shape:
            raise InputError(f"{path} has shape {shape}: expected N x C x grid with 1 to 3 grid axes, none empty")
        self.path, self.shape, self._read = path, shape, read

    def __getitem__(self, part: slice) -> Tensor:
        values = np.array(self._read(part), dtype=np.float32)
        if not np.isfinite(values).all():
            first = (part.start or 0) + int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(1)))
            raise InputError(f"{self.path} holds NaN or infinity in sample {first}")
        return torch.from_numpy(values)


def open_fields(path: str | Path) -> Fields:
    """The fields of an .npy file, or of the dataset ``x`` or ``test/x`` of an HDF5 file."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    return _open_npy(path) if path.suffix == ".npy" else _open_hdf5(path)


def _open_npy(path: Path) -> Fields:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not an .npy array of numbers: {error}") from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"{path} holds {array.dtype}, expected real numbers")
    return Fields(path, array.shape, lambda part: array[part])


def _open_hdf5(path: Path) -> Fields:
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} is neither .npy nor a readable HDF5 file") from error
    found = next((file[name] for name in NAMES if isinstance(file.get(name), h5py.Dataset)), None)
    if found is None:
        raise InputError(f"{path} has no dataset {' or '.join(NAMES)}")
    if found.dtype.kind not in "fiu":
        raise InputError(f"{path} holds {found.dtype}, expected real numbers")
    return Fields(path, found.shape, lambda part: found[part])


class FieldWriter(AbstractContextManager["FieldWriter"]):
    """Writes fields batch by batch to ``y`` of an HDF5 file, or to an .npy file; whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in (".h5", ".hdf5", ".npy"):
            raise InputError(f"cannot write {self.path}: expected a name that ends in .h5, .hdf5 or .npy")
        self._stack = ExitStack()
        self._batches: list[np.ndarray] = []
        self._file: h5py.File | None = None

    def __enter__(self) -> FieldWriter:
        self._aside = self._stack.enter_context(written_aside(self.path))
        if self.path.suffix != ".npy":
            self._file = self._stack.enter_context(h5py.File(self._aside, "w"))
        return self

    def append(self, fields: Tensor) -> None:
        values = fields.detach().cpu().float().numpy()
        if self._file is None:
            self._batches.append(values)
            return
        if "y" not in self._file:
            self._file.create_dataset("y", data=values, maxshape=(None, *values.shape[1:]))
            return
        stored = self._file["y"]
        stored.resize(len(stored) + len(values), axis=0)
        stored[-len(values) :] = values

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._file is None:
            with open(self._aside, "wb") as file:
                np.save(file, np.concatenate(self._batches), allow_pickle=False)
        self._stack.__exit__(kind, error, trace)
