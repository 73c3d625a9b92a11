"""Point clouds without truth: bodies to predict the pressure of, and predictions, in HDF5 files."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np
from torch import Tensor

from halfwave.data.arrays import H5Reader
from halfwave.data.opening import open_point_dataset
from halfwave.data.point_dataset import FIELDS, H5Cloud, PointSplit
from halfwave.errors import InputError
from halfwave.files import written_aside

_GROUPS = ("", "test")
_GEOMETRY = {name: tail for name, tail in FIELDS.items() if name != "pressure"}


def open_clouds(path: str | Path) -> PointSplit:
    """The clouds of an HDF5 file, in its root or in `test`, or the test split of a directory of meshes.

    In HDF5 the layout is that of `store`; a pressure is not needed and not read.
    """
    path = Path(path)
    if path.is_dir() or not h5py.is_hdf5(path):
        return open_point_dataset(path).test
    reader = H5Reader(path)
    group = next((group for group in _GROUPS if f"{group}/points" in reader.handle), None)
    if group is None:
        found = "fields on a grid" if any(f"{group}/x" in reader.handle for group in _GROUPS) else "no clouds"
        raise InputError(f"{path} holds {found}; a dataset 'points' or 'test/points' is expected")
    return PointSplit(path, group or "points", H5Cloud(reader, group, _GEOMETRY))


class CloudWriter(AbstractContextManager["CloudWriter"]):
    """Writes `points` (P x 3), `pressure` (P) and `offsets` (N + 1) cloud by cloud; whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in (".h5", ".hdf5"):
            raise InputError(f"cannot write {self.path}: clouds need a name that ends in .h5 or .hdf5")
        self._stack = ExitStack()

    def __enter__(self) -> CloudWriter:
        aside = self._stack.enter_context(written_aside(self.path))
        self._file = self._stack.enter_context(h5py.File(aside, "w"))
        self._file.create_dataset("offsets", data=np.zeros(1, np.int64), maxshape=(None,))
        self._file.create_dataset("points", shape=(0, 3), dtype=np.float32, maxshape=(None, 3))
        self._file.create_dataset("pressure", shape=(0,), dtype=np.float32, maxshape=(None,))
        return self

    def append(self, points: Tensor, pressure: Tensor) -> None:
        """One cloud: points (P, 3) and the pressure (P,) on them."""
        end = self._file["offsets"][-1] + len(points)
        for name, rows in (("offsets", np.array([end])), ("points", points), ("pressure", pressure)):
            values = np.asarray(rows if isinstance(rows, np.ndarray) else rows.detach().cpu().float())
            stored = self._file[name]
            stored.resize(len(stored) + len(values), axis=0)
            stored[-len(values) :] = values

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
