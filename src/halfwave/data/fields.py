"""Fields without truth: inputs to predict from, of any format, and predictions, in HDF5 or .npy files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfwave.data.arrays import PairSource
from halfwave.data.claims import check_memory
from halfwave.data.h5_writing import H5Writer, written_h5
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
        check_memory(f"{self.path}: {len(indices)} fields", 4 * len(indices) * math.prod(self.shape[1:]))
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


class FieldWriter(ExitStack):
    """Writes fields batch by batch to ``y`` of an HDF5 file, or to an .npy file; whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.suffix not in (".h5", ".hdf5", ".npy"):
            raise InputError(f"cannot write {self.path}: expected a name that ends in .h5, .hdf5 or .npy")

    def __enter__(self) -> FieldWriter:
        written: Any = _written_npy(self.path) if self.path.suffix == ".npy" else written_h5(self.path)
        self._target = self.enter_context(written)
        return self

    def append(self, fields: Tensor) -> None:
        values = fields.detach().cpu().float().numpy()
        if isinstance(self._target, H5Writer):
            self._target.append("y", values)
        else:
            self._target.append(values)


@contextmanager
def _written_npy(path: Path) -> Iterator[list[np.ndarray]]:
    """Batches to be filled in, which are then written as one array."""
    batches: list[np.ndarray] = []
    with written_aside(path) as aside:
        yield batches
        with open(aside, "wb") as file:
            np.save(file, np.concatenate(batches), allow_pickle=False)
