"""The Well's HDF5 layout (Ohana et al. 2024), one file or a directory with `train` and `test` folders of them.

Groups t0_fields, t1_fields, t2_fields hold scalars, vectors and tensors, each N x time x grid x components. `steps` are
input and output: fields(first) -> fields(second). A field that is constant in time (a coefficient) is an input only.

Its files say where points lie (`dimensions`) and what is beyond them (`boundary_conditions`): a torus where every axis
is periodic, a sphere where the grid is spherical, else a box with the points at the centres of equal cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from halfwave.data.arrays import (
    ArrayPair,
    ChannelsFirst,
    H5Array,
    Joined,
    LazyArray,
    PairSource,
    Stacked,
    WithChannel,
)
from halfwave.data.h5_reading import H5Reader, require_numeric
from halfwave.data.readers.common import Found, side_length
from halfwave.data.trajectories import H5States, StackedStates, Trajectories, join_trajectories
from halfwave.domains import SPHERE_GRIDS, Box, Domain, Sphere, SphereGrid, Torus, latitudes
from halfwave.errors import InputError

GROUPS = ("t0_fields", "t1_fields", "t2_fields")
FOLDERS = {"train": ("train",), "test": ("test", "valid")}
SUFFIXES = ("*.hdf5", "*.h5")


def is_the_well(file: h5py.File) -> bool:
    return any(isinstance(file.get(group), h5py.Group) for group in GROUPS)


def read_the_well(reader: H5Reader, steps: tuple[int, int]) -> Found:
    source, names = _read_file(reader, steps)
    metadata = {"format": "The Well", "steps": list(steps), "fields": names}
    domain = _domain(reader.handle, source.shapes[0][2:])
    return Found({"samples": source}, metadata, domain, {"samples": _trajectories(reader)})


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
    trajectories: dict[str, Trajectories] = {}
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
        trajectories[split] = join_trajectories([_trajectories(H5Reader(file)) for file in files])
    domain = _domain(H5Reader(folders["train"][0]).handle, splits["train"].shapes[0][2:])
    return Found(splits, {"format": "The Well", "steps": list(steps), "fields": fields}, domain, trajectories)


def _domain(file: h5py.File, grid: tuple[int, ...]) -> Domain | None:
    """The domain of a file that describes its grid, else None."""
    dimensions = file.get("dimensions")
    if not isinstance(dimensions, h5py.Group):
        return None
    names = [_text(name) for name in dimensions.attrs.get("spatial_dims", [])]
    found = [dimensions.get(name) for name in names]
    if len(found) != len(grid) or not all(isinstance(values, h5py.Dataset) for values in found):
        return None
    if _text(file.attrs.get("grid_type", "cartesian")) == "spherical":
        return _sphere(found[0][()]) if len(grid) == 2 and found[0].shape == grid[:1] else None
    sides = [side_length(values, n) for values, n in zip(found, grid, strict=True)]
    lengths = tuple(side for side in sides if side is not None)
    if len(lengths) != len(grid):
        return None
    return Torus(lengths) if set(names) <= _periodic_axes(file) else Box(lengths, "cells")


def _sphere(theta: np.ndarray) -> Domain | None:
    """The sphere whose colatitudes these are, from either pole."""
    theta = np.sort(theta.astype(np.float64))
    kinds: tuple[SphereGrid, ...] = SPHERE_GRIDS
    fits = [kind for kind in kinds if np.allclose(latitudes(kind, len(theta))[0].numpy(), theta, atol=1e-4)]
    return Sphere(fits[0]) if fits else None


def _periodic_axes(file: h5py.File) -> set[str]:
    """Names of the axes that some boundary condition calls periodic."""
    conditions = [c.attrs for c in file.get("boundary_conditions", {}).values()]
    periodic = [c for c in conditions if _text(c.get("bc_type", "")).lower() == "periodic"]
    return {_text(name) for c in periodic for name in c.get("associated_dims", [])}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


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


def _trajectories(reader: H5Reader) -> Trajectories:
    """Fields that vary in time as states; the others ride along."""
    found = list(_fields(reader))
    states = StackedStates(tuple(H5States(reader, key, order) for key, order, varies in found if varies))
    beside = [_field(reader, key, order, None) for key, order, varies in found if not varies]
    return Trajectories(states, Stacked(tuple(beside)) if beside else None)
