"""Our own HDF5 files in the `grid` and `time` layouts of `store`."""

from __future__ import annotations

from typing import Any

from halfwave.data.arrays import ArrayPair, H5Array, LazyArray, PairSource, Stacked
from halfwave.data.generator import SPLITS
from halfwave.data.h5_reading import H5Reader
from halfwave.data.placement import declared_domain
from halfwave.data.readers.common import Found
from halfwave.data.trajectories import Constant, H5States, StatePairs, Trajectories
from halfwave.errors import InputError
from halfwave.files import parse_json


def read_own(reader: H5Reader, steps: tuple[int, int]) -> Found:
    metadata = read_own_metadata(reader)
    if "train/trajectory" in reader.handle:
        return _read_time(reader, metadata, steps)
    arrays = {split: [H5Array(reader, f"{split}/{which}") for which in "xy"] for split in SPLITS}
    domain = declared_domain(metadata, reader.path)
    return Found({split: ArrayPair(x, y) for split, (x, y) in arrays.items()}, metadata, domain)


def _read_time(reader: H5Reader, metadata: dict[str, Any], steps: tuple[int, int]) -> Found:
    """`steps` are input and output: state(first) -> state(second)."""
    found = {split: _trajectories(reader, split) for split in SPLITS}
    pairs: dict[str, PairSource] = {split: StatePairs(source, steps) for split, source in found.items()}
    domain = declared_domain(metadata, reader.path)
    return Found(pairs, {**metadata, "steps": list(steps)}, domain, found)


def _trajectories(reader: H5Reader, split: str) -> Trajectories:
    states = H5States(reader, f"{split}/trajectory")
    beside: list[LazyArray] = []
    if f"{split}/static" in reader.handle:
        beside.append(H5Array(reader, f"{split}/static"))
    if f"{split}/parameters" in reader.handle:
        beside.append(Constant(H5Array(reader, f"{split}/parameters"), states.shape[3:]))
    for array in beside:
        if (array.shape[0], *array.shape[2:]) != (states.shape[0], *states.shape[3:]):
            raise InputError(f"{reader.path}: what rides along in {split} differs from the states in samples or grid")
    return Trajectories(states, Stacked(tuple(beside)) if beside else None)


def read_own_metadata(reader: H5Reader) -> dict[str, Any]:
    text, where = reader.handle.attrs.get("metadata", "{}"), f"{reader.path}: the attribute 'metadata'"
    metadata = parse_json(text, where) if isinstance(text, str | bytes) else None
    if not isinstance(metadata, dict):
        raise InputError(f"{where} is not a JSON object")
    return metadata
