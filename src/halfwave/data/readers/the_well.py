"""The Well's HDF5 layout (Ohana et al. 2024), one file or a directory with `train` and `test` folders of them.

Groups t0_fields, t1_fields, t2_fields hold scalars, vectors and tensors, each N x time x grid x components. `steps` are
input and output: fields(first) -> fields(second). A field that is constant in time (a coefficient) is an input only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py

from halfwave.data.arrays import (
    ArrayPair,
    ChannelsFirst,
    H5Array,
    H5Reader,
    Joined,
    LazyArray,
    PairSource,
    Stacked,
    WithChannel,
    require_numeric,
)
from halfwave.data.readers.common import Found
from halfwave.errors import InputError

GROUPS = ("t0_fields", "t1_fields", "t2_fields")
FOLDERS = {"train": ("train",), "test": ("test", "valid")}
SUFFIXES = ("*.hdf5", "*.h5")


def is_the_well(file: h5py.File) -> bool:
    return any(isinstance(file.get(group), h5py.Group) for group in GROUPS)


def read_the_well(reader: H5Reader, steps: tuple[int, int]) -> Found:
    source, names = _read_file(reader, steps)
    return Found({"samples": source}, {"format": "The Well", "steps": list(steps), "fields": names})


def find_folders(path: Path) -> dict[str, list[Path]]:
    """The files of each split of a directory `train/`, `test/` (or `data/train/` ..), as The Well is published."""
    for root in (path, path / "data"):
        found = {
            split: next((files for folder in folders if (files := _files(root / folder))), [])
            for split, folders in FOLDERS.items()
        }
        if all(found.values()):
            return found
    return {}


def read_the_well_directory(folders: dict[str, list[Path]], steps: tuple[int, int]) -> Found:
    splits: dict[str, PairSource] = {}
    fields: list[str] = []
    for split, files in folders.items():
        sources: list[PairSource] = []
        for file in files:
            source, names = _read_file(H5Reader(file), steps)
            if sources and [s[1:] for s in source.shapes] != [s[1:] for s in sources[0].shapes]:
                raise InputError(f"{file} has shapes {source.shapes}; {files[0].name} beside it has others")
            sources.append(source)
            fields = names
        splits[split] = Joined(tuple(sources))
    return Found(splits, {"format": "The Well", "steps": list(steps), "fields": fields})


def _files(folder: Path) -> list[Path]:
    return sorted(file for suffix in SUFFIXES for file in folder.glob(suffix))


def _read_file(reader: H5Reader, steps: tuple[int, int]) -> tuple[PairSource, list[str]]:
    names, inputs, outputs = [], [], []
    for key, order, varies in _fields(reader):
        names.append(key.split("/")[1])
        inputs.append(_field(reader, key, order, steps[0] if varies else None))
        if varies:
            outputs.append(_field(reader, key, order, steps[1]))
    if not outputs:
        raise InputError(f"{reader.path} has no field that varies in time, with samples and on the whole grid")
    if len({(array.shape[0], *array.shape[2:]) for array in (*inputs, *outputs)}) != 1:
        raise InputError(f"{reader.path}: its fields differ in samples or grid")
    return ArrayPair(Stacked(tuple(inputs)), Stacked(tuple(outputs))), names


def _fields(reader: H5Reader) -> Iterator[tuple[str, int, bool]]:
    """Key, tensor order and variation in time of every field that differs between samples and covers the grid."""
    for order, group in enumerate(GROUPS):
        for name in reader.handle.get(group, {}):
            attributes = require_numeric(reader.handle, f"{group}/{name}", reader.path).attrs
            if attributes.get("sample_varying", True) and all(attributes.get("dim_varying", [True])):
                yield f"{group}/{name}", order, bool(attributes.get("time_varying", True))


def _field(reader: H5Reader, key: str, order: int, step: int | None) -> LazyArray:
    array = H5Array(reader, key, step)
    if not 2 <= len(array.shape) - order <= 4:
        raise InputError(f"{reader.path}: '{key}' has shape {array.shape}; 1 to 3 grid axes are expected")
    return ChannelsFirst(array, order) if order else WithChannel(array)
