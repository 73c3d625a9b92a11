"""HDF5 files of our own: checksums on all that is in them, and a full disk is one line.

Every chunk has an Adler-32 (deflate at level 0: stored as it is) and a Fletcher-32 over that, verified by HDF5 when the
chunk is read: the second alone takes 0x0000 for 0xffff. Headers, indices and attributes of the 1.10 format have
checksums of their own; text is of fixed length, as strings of variable length lie in a heap without any.

HDF5 cannot close a file that it cannot flush, and takes the process with it. So it writes to a `Sink`, which never
fails: the first error is kept, what could not be written stays in memory until the file is closed, and then raised.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from halfwave.files import written_aside

_LARGEST_CHUNK = 1 << 20
_SMALLEST_CHUNK = 1 << 14
_CHECKSUMS = {"compression": "gzip", "compression_opts": 0, "fletcher32": True}


class Sink(io.RawIOBase):
    """A file for HDF5 to write to that keeps the first error in place of raising it."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115  closed with this one
        self._kept: list[tuple[int, bytes]] = []
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        view, at = memoryview(data).cast("B"), self._file.tell()
        try:
            done = 0
            while done < len(view) and self.error is None:
                done += self._file.write(view[done:])
        except OSError as error:
            self.error = error
        if self.error is not None:
            self._kept.append((at, bytes(view)))
            self._file.seek(at + len(view))
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view, at = memoryview(buffer).cast("B"), self._file.tell()
        self._file.readinto(view)
        for start, data in self._kept:
            first, last = max(start, at), min(start + len(data), at + len(view))
            if first < last:
                view[first - at : last - at] = data[first - start : last - start]
        self._file.seek(at + len(view))
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None) -> int:
        try:
            return self._file.truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0

    def close(self) -> None:
        self._file.close()
        super().close()

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self.error is not None:
            raise self.error


class H5Writer:
    """A file that is being written: datasets with checksums, filled or appended to; errors come at once."""

    def __init__(self, file: h5py.File, sink: Sink) -> None:
        self._file, self._sink = file, sink

    def describe(self, metadata: Mapping[str, Any]) -> None:
        """The attribute `metadata` of the file: JSON."""
        self._file.attrs["metadata"] = np.bytes_(json.dumps(metadata).encode())

    def __contains__(self, key: str) -> bool:
        return key in self._file

    def put(self, key: str, values: np.ndarray) -> None:
        """One array as it is."""
        self.create(key, values.shape, values.dtype)
        self._file[key][...] = values
        self._sink.check()

    def create(self, key: str, shape: tuple[int, ...], dtype: np.dtype[Any], grows: bool = False) -> None:
        """An array to be filled, its first axis samples or points; one that `grows` is appended to."""
        most = (None, *(size or None for size in shape[1:])) if grows else shape
        chunks = plan_chunks((_LARGEST_CHUNK if grows else shape[0], *shape[1:]), dtype.itemsize)
        self._file.create_dataset(key, shape=shape, dtype=dtype, maxshape=most, chunks=chunks, **_CHECKSUMS)
        self._sink.check()

    def fill(self, key: str, index: int, sample: np.ndarray) -> None:
        self._file[key][index] = sample
        self._sink.check()

    def append(self, key: str, rows: np.ndarray) -> None:
        if key not in self._file:
            self.create(key, (0, *rows.shape[1:]), rows.dtype, grows=True)
        stored = self._file[key]
        stored.resize(len(stored) + len(rows), axis=0)
        if len(rows):
            stored[-len(rows) :] = rows
        self._sink.check()

    def append_offset(self, key: str, count: int) -> None:
        """`offsets` of clouds: 0, and after each cloud the number of points so far."""
        if key not in self._file:
            self.append(key, np.zeros(1, np.int64))
        self.append(key, self._file[key][-1:] + count)


@contextmanager
def written_h5(path: str | Path) -> Iterator[H5Writer]:
    """Write an HDF5 file aside, sync it and rename it over `path`, else leave nothing; InputError for a full disk."""
    with written_aside(path) as aside, Sink(aside) as sink:
        with h5py.File(sink, "w", libver=("v110", "v110")) as file:
            yield H5Writer(file, sink)
        sink.check()


def plan_chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole rows, several where they are small; pieces of a row, along its longest axes, where it is large."""
    row = [max(1, size) for size in shape[1:]]
    while (size := math.prod(row) * itemsize) > _LARGEST_CHUNK:
        longest = row.index(max(row))
        row[longest] = -(-row[longest] // 2)
    return (max(1, min(shape[0], _SMALLEST_CHUNK // size)), *row)
