"""NumPy `.npz` archives: `x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`; each N x grid or N x C x grid.

The archive has a CRC-32 of each array; it is checked before the first sample is read, of arrays that are mapped too.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from halfwave.data.archives import check_crc, data_offset, require_honest
from halfwave.data.arrays import MAPPED_LIMIT
from halfwave.data.claims import check_memory
from halfwave.data.generator import SPLITS
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.readers.npy_file import read_npy_header
from halfwave.data.refusals import reading
from halfwave.data.trajectories import MemoryStates, StatePairs, Trajectories
from halfwave.errors import InputError


class NpzArray:
    """One array of the archive: mapped when stored as it is, loaded on first use when compressed."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key, self._member = path, key, f"{key}.npy"
        with reading(path, key), zipfile.ZipFile(path) as archive, archive.open(self._member) as member:
            info, where = archive.getinfo(self._member), f"{path}: '{key}'"
            require_honest(info, path, where)
            self.header = read_npy_header(member, where)  # type: ignore[arg-type]
            if self.header.start + self.header.nbytes != info.file_size:
                raise InputError(f"{where} claims {self.header.nbytes} bytes; the archive has {info.file_size} for it")
            self.offset = data_offset(path, info) + self.header.start if info.compress_type == 0 else None
        self.shape = self.header.shape
        self._values: np.ndarray | None = None
        self._checked = False
        self._touched = 0

    def read(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self._open(indices)[indices])

    def whole(self) -> np.ndarray:
        check_memory(f"{self.path}: '{self.key}'", self.header.nbytes)
        return np.array(self._open(np.arange(self.shape[0])))

    def _open(self, indices: np.ndarray) -> np.ndarray:
        stale = self._touched > MAPPED_LIMIT and self.offset is not None
        if self._values is None or stale:
            with reading(self.path, self.key):
                self._values, self._touched = self._load() if self.offset is None else self._map(self.offset), 0
        self._touched += len(indices) * (self._values.nbytes // max(1, len(self._values)))
        return self._values

    def _load(self) -> np.ndarray:
        check_memory(f"{self.path}: '{self.key}'", self.header.nbytes)
        with np.load(self.path, allow_pickle=False) as archive:
            return archive[self.key]

    def _map(self, offset: int) -> np.ndarray:
        if not self._checked:
            check_crc(self.path, self._member)
            self._checked = True
        return np.memmap(self.path, self.header.dtype, "r", offset, self.shape, self.header.order)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_values": None}


def read_npz(path: Path, options: ReadOptions) -> Found:
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    if {f"{which}_{split}" for which in "xy" for split in SPLITS} <= set(names):
        rule, where = options.channel_rule, f"{path}: 'x_train'"
        splits = {
            split: rule.pair(NpzArray(path, f"x_{split}"), NpzArray(path, f"y_{split}"), where) for split in SPLITS
        }
        return Found(dict(splits), {"format": "npz"})
    if "trajectory" in names and options.x_key is None:
        found = Trajectories(MemoryStates(NpzArray(path, "trajectory").whole()))
        pairs, metadata = StatePairs(found, options.steps), {"format": "npz", "steps": list(options.steps)}
        return Found({"samples": pairs}, metadata, None, {"samples": found})
    x, y = options.choose_pair(names, path)
    inputs = NpzArray(path, x)
    samples = options.channel_rule.pair(inputs, inputs if y == x else NpzArray(path, y), f"{path}: '{x}'")
    return Found({"samples": samples}, {"format": "npz", "keys": [x, y]})
