"""A single NumPy array, `.npy`: inputs to predict from, N x grid or N x C x grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from halfwave.data.readers.common import Found, ReadOptions
from halfwave.errors import InputError

MAGIC = b"\x93NUMPY"


class NpyArray:
    """The array, mapped into memory and not loaded."""

    def __init__(self, path: Path) -> None:
        try:
            self.values = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise InputError(f"{path} is not an .npy array of numbers: {error}") from error
        if self.values.dtype.kind not in "fiub":
            raise InputError(f"{path} holds {self.values.dtype}, expected real numbers")
        self.shape = self.values.shape

    def read(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.values[indices])


def read_npy(path: Path, options: ReadOptions) -> Found:
    if not options.inputs_only:
        raise InputError(f"{path} holds one array: inputs without outputs; two are expected, as in .npz")
    array = NpyArray(path)
    return Found({"samples": options.channel_rule.pair(array, array, str(path))}, {"format": "npy"})
