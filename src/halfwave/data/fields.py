"""Fields without truth: inputs to predict from, of any format, and predictions, in HDF5 or .npy files."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from halfwave.data.arrays import PairSource
from halfwave.data.opening import open_inputs
from halfwave.data.readers.common import ReadOptions
from halfwave.errors import InputError
from halfwave.files import written_aside

_DEFAULTS = ReadOptions()


class Fields:
    """N fields C x grid of a file, read when asked for: `fields[2:10]` is a float32 tensor."""

    def __init__(self, path: Path, source: PairSource, metadata: dict[str, Any]) -> None:
        self.path, self.metadata, self._source = path, metadata, source
        self.shape = source.shapes[0]

    def __getitem__(self, part: slice) -> Tensor:
        indices = np.arange(self.shape[0])[part]
        values = np.array(self._source.read(indices)[0], dtype=np.float32)
        if not np.isfinite(values).all():
            first = int(indices[np.argmin(np.isfinite(values).reshape(len(values), -1).all(1))])
            raise InputError(f"{self.path} holds NaN or infinity in sample {first}")
        return torch.from_numpy(values)

    def understood(self) -> str:
        """How the file was read, in one line."""
        keys = self.metadata.get("keys")
        count, channels, *grid = self.shape
        named = f" in {keys[0]!r}" if keys else ""
        return f"{self.path.name}: {count} inputs of {channels} channels on {' x '.join(map(str, grid))}{named}"


def open_fields(path: str | Path, options: ReadOptions = _DEFAULTS) -> Fields:
    """The inputs of any file that `open_dataset` reads, of its test split where it has one, or of an `.npy` array."""
    return Fields(Path(path), *open_inputs(path, options))


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
