"""Point clouds without truth: bodies to predict the pressure of, and predictions, in HDF5 files."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import h5py
from torch import Tensor

from halfwave.data.h5_reading import H5Reader
from halfwave.data.h5_writing import written_h5
from halfwave.data.opening import open_point_dataset
from halfwave.data.point_dataset import FIELDS, H5Cloud, PointSplit
from halfwave.data.refusals import reading
from halfwave.errors import InputError
from halfwave.files import check_regular

_GROUPS = ("", "test")
_GEOMETRY = {name: tail for name, tail in FIELDS.items() if name != "pressure"}


def open_clouds(path: str | Path) -> PointSplit:
    """The clouds of an HDF5 file, in its root or in `test`, or the test split of a directory of meshes.

    In HDF5 the layout is that of `store`; a pressure is not needed and not read.
    """
    path = Path(path)
    check_regular(path)
    if path.is_dir() or not h5py.is_hdf5(path):
        return open_point_dataset(path).test
    with reading(path):
        return _find_clouds(H5Reader(path))


def _find_clouds(reader: H5Reader) -> PointSplit:
    group = next((group for group in _GROUPS if f"{group}/points" in reader.handle), None)
    if group is None:
        found = "fields on a grid" if any(f"{group}/x" in reader.handle for group in _GROUPS) else "no clouds"
        raise InputError(f"{reader.path} holds {found}; a dataset 'points' or 'test/points' is expected")
    return PointSplit(reader.path, group or "points", H5Cloud(reader, group, _GEOMETRY))


class CloudWriter(ExitStack):
    """Writes `points` (P x 3), `pressure` (P) and `offsets` (N + 1) cloud by cloud; whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        if self.path.suffix not in (".h5", ".hdf5"):
            raise InputError(f"cannot write {self.path}: clouds need a name that ends in .h5 or .hdf5")

    def __enter__(self) -> CloudWriter:
        self._writer = self.enter_context(written_h5(self.path))
        return self

    def append(self, points: Tensor, pressure: Tensor) -> None:
        """One cloud: points (P, 3) and the pressure (P,) on them."""
        self._writer.append_offset("offsets", len(points))
        for name, rows in (("points", points), ("pressure", pressure)):
            self._writer.append(name, rows.detach().cpu().float().numpy())
