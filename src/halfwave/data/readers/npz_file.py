"""NumPy `.npz` archives: `x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`; each N x grid or N x C x grid."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy

from halfwave.data.arrays import MAPPED_LIMIT
from halfwave.data.generator import SPLITS
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.trajectories import MemoryStates, StatePairs, Trajectories
from halfwave.errors import InputError

_LOCAL_HEADER = 30  # bytes of a zip entry's own header before its name and extra field


class NpzArray:
    """One array of the archive: mapped when stored as it is, loaded on first use when compressed."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as member:
            info = archive.getinfo(f"{key}.npy")
            self.shape, self.fortran, self.dtype = _read_header(member)
            self.offset = _data_offset(path, info) + member.tell() if info.compress_type == zipfile.ZIP_STORED else None
        if self.dtype.kind not in "fiub":
            raise InputError(f"{path}: '{key}' has type {self.dtype}; real numbers are expected")
        self._values: np.ndarray | None = None
        self._touched = 0

    def read(self, indices: np.ndarray) -> np.ndarray:
        stale = self._touched > MAPPED_LIMIT and self.offset is not None
        if self._values is None or stale:
            self._values, self._touched = self._open(), 0
        values = np.asarray(self._values[indices])
        self._touched += values.nbytes
        return values

    def _open(self) -> np.ndarray:
        try:
            if self.offset is None:
                with np.load(self.path, allow_pickle=False) as archive:
                    return archive[self.key]
            order: Literal["F", "C"] = "F" if self.fortran else "C"
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)
        except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{self.path}: '{self.key}' cannot be read, the file is damaged") from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_values": None}


def _read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(member)
    return npy.read_array_header_1_0(member) if version == (1, 0) else npy.read_array_header_2_0(member)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored entry's bytes begin: its local header may be longer than the directory says."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + _LOCAL_HEADER - 4)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    return info.header_offset + _LOCAL_HEADER + name + extra


def read_npz(path: Path, options: ReadOptions) -> Found:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        if {f"{which}_{split}" for which in "xy" for split in SPLITS} <= set(names):
            rule, where = options.channel_rule, f"{path}: 'x_train'"
            splits = {
                split: rule.pair(NpzArray(path, f"x_{split}"), NpzArray(path, f"y_{split}"), where) for split in SPLITS
            }
            return Found(dict(splits), {"format": "npz"})
        if "trajectory" in names and options.x_key is None:
            found = Trajectories(MemoryStates(np.load(path, allow_pickle=False)["trajectory"]))
            pairs, metadata = StatePairs(found, options.steps), {"format": "npz", "steps": list(options.steps)}
            return Found({"samples": pairs}, metadata, None, {"samples": found})
        x, y = options.choose_pair(names, path)
        inputs = NpzArray(path, x)
        samples = options.channel_rule.pair(inputs, inputs if y == x else NpzArray(path, y), f"{path}: '{x}'")
        return Found({"samples": samples}, {"format": "npz", "keys": [x, y]})
    except InputError:
        raise
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is truncated or not an archive of NumPy arrays") from error
