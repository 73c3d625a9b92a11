"""Open a dataset, whatever it is: recognised by its content, never by its name."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py

from halfwave.data.arrays import PairSource, Rows
from halfwave.data.dataset import Dataset, Split, check_shapes
from halfwave.data.generator import SPLITS
from halfwave.data.given import GivenData
from halfwave.data.h5_reading import H5Reader, has_loose_attributes, is_guarded
from halfwave.data.placement import Placement, place
from halfwave.data.point_dataset import PointDataset, PointSplit, Thinned, read_h5_clouds
from halfwave.data.probing import try_apart
from halfwave.data.readers.common import PAIR_NAMES, Found, ReadOptions
from halfwave.data.readers.matlab_file import read_matlab, read_matlab_h5
from halfwave.data.readers.mesh_directory import is_mesh_directory, read_mesh_directory
from halfwave.data.readers.npy_file import MAGIC, read_npy
from halfwave.data.readers.npz_file import read_npz
from halfwave.data.readers.own_file import read_own, read_own_metadata
from halfwave.data.readers.pdebench import is_pdebench, read_pdebench
from halfwave.data.readers.plain_h5 import is_matlab, read_plain_h5
from halfwave.data.readers.the_well import find_folders, is_the_well, read_the_well, read_the_well_directory
from halfwave.data.readers.torch_file import read_torch
from halfwave.data.refusals import reading, require_file
from halfwave.data.resampling import Resampled
from halfwave.data.trajectories import StatePairs
from halfwave.data.windows import windows_of
from halfwave.errors import InputError, described

_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
_DEFAULTS = ReadOptions()


Data = str | Path | GivenData
"""Where data are: a path, or what a program holds."""


def open_dataset(path: Data, options: ReadOptions = _DEFAULTS) -> Dataset:
    """Open a dataset of fields on a grid; nothing but its shapes is read until samples are asked for.

    Ours, neuraloperator's `.pt`, Li et al.'s `.mat`, PDEBench's and The Well's HDF5, or `.npz`.
    InputError, in one line that names the file, for what is missing, empty, truncated or not such a dataset.
    """
    dataset = open_any(path, options)
    if not isinstance(dataset, Dataset):
        raise InputError(f"{path} holds point clouds; fields on a grid are expected")
    return dataset


def open_point_dataset(path: Data, options: ReadOptions = _DEFAULTS) -> PointDataset:
    """Open a dataset of point clouds: ours, or a directory of meshes. InputError as for `open_dataset`."""
    dataset = open_any(path, options)
    if not isinstance(dataset, PointDataset):
        raise InputError(f"{path} holds fields on a grid; point clouds are expected")
    return dataset


def open_inputs(path: str | Path, options: ReadOptions = _DEFAULTS) -> tuple[PairSource, dict[str, Any]]:
    """The inputs of a file of fields, of its test split where it has one, and what the file says about itself.

    Outputs are not needed. All formats of `open_dataset`, and `.npy`.
    """
    path = Path(path)
    found = _find(path, replace(options, inputs_only=True))
    if isinstance(found, PointDataset):
        raise InputError(f"{path} holds point clouds; fields on a grid are expected")
    source = found.splits["test"] if "test" in found.splits else found.splits["samples"]
    check_shapes(path, "inputs", source)
    return source, found.metadata


def open_any(path: Data, options: ReadOptions = _DEFAULTS) -> Dataset | PointDataset:
    """Open a dataset of either kind."""
    if not isinstance(path, str | Path | GivenData):
        raise InputError(f"data is {described(path)}; a path is expected")
    given = path if isinstance(path, GivenData) else None
    path = Path("<given>") if given is not None else Path(path)  # type: ignore[arg-type]
    found = _find(path, options) if given is None else _in_time(given.find(options), path, options)
    if isinstance(found, PointDataset):
        return _limit_clouds(found, options)
    splits, metadata = _complete(found, path, options)
    if options.window is not None:
        splits = {name: windows_of(source, options.window) for name, source in splits.items()}
    placement = place(found.domain, options.domain, len(splits["train"].shapes[0]) - 2, path)
    if options.window is not None and (options.stride > 1 or options.resolution):
        raise InputError("windows of trajectories are read on the grid of their file: leave the resolution out")
    if options.stride > 1 or options.resolution:
        splits, placement = _resample(splits, placement, options)
        metadata |= {"stride": options.stride, "resampled_to": options.resolution}
    train, test = (Split(path, split, splits[split], placement.domain) for split in SPLITS)
    return Dataset(path, metadata, placement, train, test)


def carries_checksums(path: str | Path) -> bool:
    """Whether damage to the numbers of a file is found when they are read: in our HDF5 files (not those of before
    checksums), `.npz` and `.pt`; other formats have none.
    """
    path = Path(path)
    if path.is_dir():
        return False
    with reading(path):
        require_file(path)
        return is_guarded(path) if h5py.is_hdf5(path) else zipfile.is_zipfile(path)


def _find(path: Path, options: ReadOptions) -> Found | PointDataset:
    found = _recognise(path, options)
    return found if isinstance(found, PointDataset) else _in_time(found, path, options)


def _in_time(found: Found, path: Path, options: ReadOptions) -> Found:
    """For windows the trajectories stand in the splits, as pairs of states: each of them is one row."""
    if options.window is None:
        return found
    if not found.trajectories:
        raise InputError(f"{path} has no trajectories: a horizon needs states in time, N x steps x channels x grid")
    pairs: dict[str, PairSource] = {name: StatePairs(part, (0, -1)) for name, part in found.trajectories.items()}
    return replace(found, splits=pairs)


def _recognise(path: Path, options: ReadOptions) -> Found | PointDataset:
    with reading(path):
        return _find_in_directory(path, options) if path.is_dir() else _find_in_file(path, options)


def _find_in_file(path: Path, options: ReadOptions) -> Found | PointDataset:
    require_file(path)
    with open(path, "rb") as file:
        start = file.read(1024)
    if start.startswith(_HDF5) or start[512:].startswith(_HDF5):  # MATLAB 7.3 puts 512 bytes of its own first
        reader = H5Reader(path)
        if has_loose_attributes(reader.handle):
            try_apart(path, lambda: _find_in_h5(H5Reader(path), options))
        return _find_in_h5(reader, options)
    if start.startswith(b"MATLAB 5"):
        return read_matlab(path, options)
    if start.startswith(_ZIP):
        return read_torch(path, options) if _is_torch_archive(path) else read_npz(path, options)
    if start.startswith(b"\x80"):  # a pickle: torch's format of before 1.6, or something that must not be loaded
        return read_torch(path, options)
    if start.startswith(MAGIC):
        return read_npy(path, options)
    raise InputError(f"{path} is not a dataset: neither HDF5 nor MATLAB, NumPy or PyTorch data")


def _find_in_directory(path: Path, options: ReadOptions) -> Found | PointDataset:
    if folders := find_folders(path):
        files = sum(map(len, folders.values()))
        try_apart(path, lambda: read_the_well_directory(folders, options.steps), files)
        return read_the_well_directory(folders, options.steps)
    if is_mesh_directory(path):
        return read_mesh_directory(path, options)
    raise InputError(
        f"{path} is a directory without samples: neither folders with a mesh and press.npy nor train/*.hdf5"
    )


def _find_in_h5(reader: H5Reader, options: ReadOptions) -> Found | PointDataset:
    file = reader.handle
    if options.x_key is not None:
        return read_matlab_h5(reader, options) if is_matlab(file) else read_plain_h5(reader, options)
    if options.inputs_only and isinstance(file.get("test/x"), h5py.Dataset):  # it may have no others
        return read_plain_h5(reader, replace(options, x_key="test/x"))
    if any(split in file for split in SPLITS):
        return (
            read_h5_clouds(reader, read_own_metadata(reader))
            if "train/points" in file
            else read_own(reader, options.steps)
        )
    if is_the_well(file):
        return read_the_well(reader, options.steps)
    if is_pdebench(file):
        return read_pdebench(reader, options)
    if is_matlab(file):
        return read_matlab_h5(reader, options)
    known = {name for names in PAIR_NAMES for name in (names[:1] if options.inputs_only else names)}
    if "trajectory" in file or known & set(file):
        return read_plain_h5(reader, options)
    raise InputError(
        f"{reader.path} has no dataset 'train/x' and no other known layout; it holds {', '.join(file) or 'nothing'}; "
        f"inputs and outputs of other names are given by --x-key and --y-key"
    )


def _is_torch_archive(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("data.pkl") for name in archive.namelist())


def _complete(found: Found, path: Path, options: ReadOptions) -> tuple[dict[str, PairSource], dict[str, Any]]:
    """Both splits, limited as asked for, and the metadata that says so."""
    splits, metadata = dict(found.splits), dict(found.metadata)
    for name, source in splits.items():
        check_shapes(path, name, source)  # before anything is cut to size
    if options.steps != _DEFAULTS.steps and "steps" not in metadata:
        raise InputError(f"{path} does not depend on time; steps {options.steps} cannot be chosen")
    if options.test is not None or "samples" in splits:
        splits, where = _add_test(found, path, options)
        metadata["test_split"] = where
    limits = {"train": options.n_train, "test": options.n_test}
    for split, source in splits.items():
        if (limit := limits[split]) is not None:
            splits[split] = Rows(source, 0, min(limit, source.shapes[0][0]))
    return splits, metadata


def _resample(
    splits: dict[str, PairSource], placement: Placement, options: ReadOptions
) -> tuple[dict[str, PairSource], Placement]:
    """The splits on another grid, and the domain that this leaves them."""
    moved = {
        split: Resampled(source, placement.domain, options.stride, options.resolution)
        for split, source in splits.items()
    }
    train, test = (moved[split].domain for split in SPLITS)
    if train != test:
        raise InputError(
            f"a stride of {options.stride} leaves the train split in a {train} and the test split in a {test}; "
            f"give a resolution instead"
        )
    return dict(moved), replace(placement, domain=train)


def _add_test(found: Found, path: Path, options: ReadOptions) -> tuple[dict[str, PairSource], str]:
    splits = found.splits
    train = splits["train"] if "train" in splits else splits["samples"]
    if (file := options.test or _beside(path)) is not None:
        other = _find(file, replace(options, test=None))  # read by the same keys
        if isinstance(other, PointDataset):
            raise InputError(f"{file} holds point clouds; fields on a grid are expected")
        if options.domain is None and None not in (found.domain, other.domain) and found.domain != other.domain:
            raise InputError(f"{path} is on a {found.domain} and {file} on a {other.domain}; give one domain for both")
        test = other.splits["test"] if "test" in other.splits else other.splits["samples"]
        check_shapes(file, "test", test)
        return {"train": train, "test": test}, file.name
    count = train.shapes[0][0]
    held_out = options.n_test or max(1, count // 5)
    if held_out >= count:
        raise InputError(f"{path} has {count} samples; more than the {held_out} of the test split are needed")
    last = f"the last {held_out} of {count} samples"
    return {"train": Rows(train, 0, count - held_out), "test": Rows(train, count - held_out, count)}, last


def _beside(path: Path) -> Path | None:
    """The test file that belongs to a train file by its name, if there is one."""
    for train, test in (("train", "test"), ("Train", "Test")):
        other = path.with_name(path.name.replace(train, test))
        if other != path and other.is_file():
            return other
    return None


def _limit_clouds(dataset: PointDataset, options: ReadOptions) -> PointDataset:
    if options.resolution or options.test:
        raise InputError(f"{dataset.path} holds point clouds; they have neither a resolution nor a separate test file")
    if options.domain is not None:
        place(dataset.domain, options.domain, 0, dataset.path)  # refuses every other domain
    limits = {"train": options.n_train, "test": options.n_test}
    train, test = (
        PointSplit(dataset.path, split, Thinned(getattr(dataset, split).source, options.stride, limits[split]))
        for split in SPLITS
    )
    return replace(dataset, train=train, test=test)
