"""HDF5 files of plain arrays: inputs and outputs as datasets of the root, or wherever `x_key` and `y_key` say."""

from __future__ import annotations

import h5py

from halfwave.data.arrays import H5Array
from halfwave.data.h5_reading import H5Reader
from halfwave.data.placement import declared_domain
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.readers.own_file import read_own_metadata
from halfwave.data.trajectories import H5States, StatePairs, Trajectories
from halfwave.errors import InputError


def is_matlab(file: h5py.File) -> bool:
    """MATLAB 7.3 begins with a block of its own, and marks every array with its class; its axes are in reverse."""
    return bool(file.userblock_size) or any("MATLAB_class" in found.attrs for found in file.values())


def dataset_names(file: h5py.File) -> list[str]:
    """Every dataset, also those within groups."""
    names: list[str] = []
    file.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
    return names


def read_plain_h5(reader: H5Reader, options: ReadOptions) -> Found:
    names, metadata = dataset_names(reader.handle), read_own_metadata(reader)
    domain = declared_domain(metadata, reader.path)
    if "trajectory" in names and options.x_key is None:
        found = Trajectories(H5States(reader, "trajectory"))
        pairs = StatePairs(found, options.steps)
        known = {"format": "HDF5", **metadata, "steps": list(options.steps)}
        return Found({"samples": pairs}, known, domain, {"samples": found})
    x, y = options.choose_pair(names, reader.path)
    inputs = H5Array(reader, x)
    outputs = inputs if y == x else H5Array(reader, y)
    if len(inputs.shape) < 2 or len(outputs.shape) < 2:
        raise InputError(
            f"{reader.path} has arrays of shape {inputs.shape} and {outputs.shape}; samples x grid is expected"
        )
    pair = options.channel_rule.pair(inputs, outputs, f"{reader.path}: '{x}'")
    return Found({"samples": pair}, {"format": "HDF5", **metadata, "keys": [x, y]}, domain)
