"""Open a dataset, whatever it is: recognised by its content, never by its name."""

from __future__ import annotations

from pathlib import Path

from halfwave.data.arrays import H5Reader
from halfwave.data.dataset import Dataset, read_h5_fields, read_h5_metadata
from halfwave.data.point_dataset import PointDataset, read_h5_clouds
from halfwave.errors import InputError


def open_dataset(path: str | Path) -> Dataset:
    """Open a dataset of fields on a grid; nothing but its shapes is read until samples are asked for.

    InputError, in one line that names the file, for what is missing, empty, truncated or not such a dataset.
    """
    dataset = open_any(path)
    if not isinstance(dataset, Dataset):
        raise InputError(f"{path} holds point clouds; fields on a grid are expected")
    return dataset


def open_point_dataset(path: str | Path) -> PointDataset:
    """Open a dataset of point clouds; InputError as for `open_dataset`."""
    dataset = open_any(path)
    if not isinstance(dataset, PointDataset):
        raise InputError(f"{path} holds fields on a grid; point clouds are expected")
    return dataset


def open_any(path: str | Path) -> Dataset | PointDataset:
    """Open a dataset of either kind."""
    reader = H5Reader(Path(path))
    metadata = read_h5_metadata(reader)
    if "train/points" in reader.handle:
        return read_h5_clouds(reader, metadata)
    return read_h5_fields(reader, metadata)
