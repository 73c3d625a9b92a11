"""HDF5 files that others wrote: nothing is followed out of the file, nothing is believed that it does not hold.

Links to other files, virtual datasets and external storage are refused wherever they are: they read another file as
this one's data, or nothing as zeros.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import h5py
from h5py import h5a, h5d, h5l, h5o, h5t

from halfwave.data.claims import check_packed, check_stored, in_bytes
from halfwave.data.refusals import reading, require_file
from halfwave.errors import InputError

_MOST_OBJECTS = 10**6
"""No known layout has more groups and datasets; a damaged index may go in circles."""


class H5Reader:
    """An HDF5 file opened on first use, anew in each process, so that it survives fork and pickling."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: h5py.File | None = None
        self._process = -1

    @property
    def handle(self) -> h5py.File:
        if self._handle is None or self._process != os.getpid():
            self._handle = open_h5(self.path)
            self._process = os.getpid()
        return self._handle

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_handle": None, "_process": -1}


def open_h5(path: Path) -> h5py.File:
    """Open for reading; InputError in one line when the file is missing, empty, truncated or not HDF5, and when it
    refers to other files."""
    require_file(path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        reason = "is truncated" if "truncated" in str(error) else "is not a readable HDF5 file"
        raise InputError(f"{path} {reason}") from error
    try:
        with reading(path):
            _check_within(file, path)
    except InputError:
        file.close()
        raise
    return file


def require_numeric(file: h5py.File, key: str, path: Path) -> h5py.Dataset:
    """The dataset `key`; InputError when it is absent, a group, no real numbers, or holds less than it claims."""
    with reading(path, key):
        found = file.get(key)
    if not isinstance(found, h5py.Dataset):
        raise InputError(f"{path} has no dataset '{key}'; it holds {', '.join(sorted(file)) or 'nothing'}")
    with reading(path, key):
        if found.dtype.kind not in "fiub":
            raise InputError(f"{path}: '{key}' has type {found.dtype}; real numbers are expected")
        if found.shape is None:
            raise InputError(f"{path}: '{key}' has no data and no shape; an array of real numbers is expected")
        _check_claim(found, f"{path}: '{key}'")
    return found


def has_loose_attributes(file: h5py.File) -> bool:
    """Whether there is an attribute of variable length: HDF5 follows its lengths and addresses wherever they lead."""

    def look(name: bytes) -> bool | None:
        found = h5o.open(file.id, name)
        count = h5a.get_num_attrs(found)
        return True if any(_is_loose(h5a.open(found, index=i).get_type()) for i in range(count)) else None

    return bool(look(b"/") or h5o.visit(file.id, look))


def _is_loose(kind: h5t.TypeID) -> bool:
    return kind.get_class() in (h5t.VLEN, h5t.REFERENCE) or (kind.get_class() == h5t.STRING and kind.is_variable_str())


def is_guarded(path: Path) -> bool:
    """Whether every dataset of a file carries checksums, which HDF5 verifies when a chunk is read."""
    found: list[bool] = []
    with open_h5(path) as file, reading(path):
        file.visititems(lambda _, item: found.append(item.fletcher32) if isinstance(item, h5py.Dataset) else None)
    return bool(found) and all(found)


def _check_within(file: h5py.File, path: Path) -> None:
    seen = [0]

    def look_at_link(name: bytes, info: Any) -> InputError | None:
        seen[0] += 1
        if seen[0] > _MOST_OBJECTS:
            return InputError(f"{path} has more than {_MOST_OBJECTS} objects, or goes in circles")
        if info.type not in (h5l.TYPE_HARD, h5l.TYPE_SOFT):
            return InputError(
                f"{path}: '{_text(name)}' is a link to another file; links are not followed out of a file"
            )
        return None

    def look_at_object(name: bytes, info: Any) -> InputError | None:
        return _refusal(h5d.open(file.id, name), f"{path}: '{_text(name)}'") if info.type == h5o.TYPE_DATASET else None

    refusal = file.id.links.visit(look_at_link, info=True) or h5o.visit(file.id, look_at_object, info=True)
    if refusal is not None:
        raise refusal


def _refusal(dataset: h5d.DatasetID, where: str) -> InputError | None:
    layout = dataset.get_create_plist()
    if layout.get_layout() == h5d.VIRTUAL:
        return InputError(f"{where} is a virtual dataset; its data must be in the file itself")
    if layout.get_layout() == h5d.CONTIGUOUS and layout.get_external_count():
        return InputError(f"{where} has its data in another file; they must be in the file itself")
    return None


def _check_claim(dataset: h5py.Dataset, where: str) -> None:
    claimed, stored = math.prod(dataset.shape) * dataset.dtype.itemsize, dataset.id.get_storage_size()
    if not dataset.id.get_create_plist().get_nfilters():
        check_stored(where, claimed, stored)
        return
    chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize
    check_packed(where, max(claimed, chunk_bytes), stored)
    wanted = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    # HDF5 unpacks a chunk to whatever it gives, and looks at the size later.
    if stored > wanted * (chunk_bytes + chunk_bytes // 8 + 1024):
        raise InputError(f"{where} has {in_bytes(stored)} for {in_bytes(claimed)}; packed data are smaller")
    # Chunks that are not there read as the fill value.
    if (found := dataset.id.get_num_chunks()) < wanted:
        raise InputError(f"{where} claims {wanted} chunks, of which {found} are there")
    _check_bare_chunks(dataset, where, chunk_bytes)


def _check_bare_chunks(dataset: h5py.Dataset, where: str, chunk_bytes: int) -> None:
    """A chunk that says that it was not filtered is taken as it is: HDF5 reads on beyond the end of a short one."""

    def short(info: Any) -> int | None:
        return int(info.size) if info.filter_mask and info.size < chunk_bytes else None

    if (size := dataset.id.chunk_iter(short)) is not None:
        raise InputError(f"{where} has a chunk of {size} bytes where {chunk_bytes} are expected")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
