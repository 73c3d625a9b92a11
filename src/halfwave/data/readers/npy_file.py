"""A single NumPy array, `.npy`: inputs to predict from, N x grid or N x C x grid. The format has no checksum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy

from halfwave.data.claims import check_stored
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.refusals import reading, require_file
from halfwave.errors import InputError

MAGIC = b"\x93NUMPY"
_VERSIONS = ((1, 0), (2, 0), (3, 0))


@dataclass(frozen=True)
class NpyHeader:
    """What an array in NumPy's format claims to be: its bytes begin `start` bytes after the header's first."""

    shape: tuple[int, ...]
    order: Literal["F", "C"]
    dtype: np.dtype[Any]
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(stream: BinaryIO, where: str) -> NpyHeader:
    """The header at the beginning of `stream`; InputError for anything but real numbers."""
    version = npy.read_magic(stream)
    if version not in _VERSIONS:
        raise InputError(f"{where} is of version {version[0]}.{version[1]} of NumPy's format, which is unknown")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "fiub":
        raise InputError(f"{where} has type {dtype}; real numbers are expected")
    if min(shape, default=0) < 0:
        raise InputError(f"{where} has shape {shape}; sizes that are not negative are expected")
    return NpyHeader(shape, "F" if fortran else "C", dtype, stream.tell())


class NpyArray:
    """The array, mapped into memory and not loaded."""

    def __init__(self, path: Path) -> None:
        require_file(path)
        with reading(path):
            with open(path, "rb") as file:
                header = read_npy_header(file, str(path))
            check_stored(str(path), header.nbytes, path.stat().st_size - header.start)
            self.values = np.memmap(path, header.dtype, "r", header.start, header.shape, header.order)
        self.shape = header.shape

    def read(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self.values[indices])


def read_npy(path: Path, options: ReadOptions) -> Found:
    if not options.inputs_only:
        raise InputError(f"{path} holds one array: inputs without outputs; two are expected, as in .npz")
    array = NpyArray(path)
    return Found({"samples": options.channel_rule.pair(array, array, str(path))}, {"format": "npy"})
