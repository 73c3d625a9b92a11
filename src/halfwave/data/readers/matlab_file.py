"""Li et al.'s MATLAB files: `coeff` and `sol`, or `a` and `u`, N x grid; `u` may have time as its last axis.

Version 7.3 files are HDF5 and are read sample by sample; older ones can only be loaded whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io

from halfwave.data.arrays import HeldArray, LazyArray
from halfwave.data.claims import check_memory, check_packed
from halfwave.data.h5_reading import H5Reader, require_numeric
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.readers.matlab_elements import check_numbers, find_elements
from halfwave.data.refusals import reading
from halfwave.data.trajectories import MemoryStates, Trajectories
from halfwave.domains import Box, Domain, Torus
from halfwave.errors import InputError

_BYTES = {
    **{f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)},
    "single": 4,
    "double": 8,
    "logical": 1,
}


class MatlabH5Array:
    """A version 7.3 array: MATLAB writes its axes in reverse, so samples are last; `step` is an index of the first."""

    def __init__(self, reader: H5Reader, key: str, step: int | None = None) -> None:
        self.reader, self.key, self.step = reader, key, step
        stored = require_numeric(reader.handle, key, reader.path).shape
        self.shape = stored[::-1] if step is None else stored[:0:-1]

    def read(self, indices: np.ndarray) -> np.ndarray:
        dataset = self.reader.handle[self.key]
        unique, inverse = np.unique(indices, return_inverse=True)
        first = () if self.step is None else (self.step,)
        with reading(self.reader.path, self.key):
            return dataset[(*first, ..., unique)].T[inverse]


class MatlabH5States:
    """All states of a version 7.3 array `u`, N x grid x time as MATLAB sees it, one channel each."""

    def __init__(self, reader: H5Reader, key: str) -> None:
        self.reader, self.key = reader, key
        stored = require_numeric(reader.handle, key, reader.path).shape[::-1]
        self.shape = (stored[0], stored[-1], 1, *stored[1:-1])

    def read(self, index: int, steps: slice) -> np.ndarray:
        with reading(self.reader.path, self.key):
            values = self.reader.handle[self.key][steps, ..., index]
        return np.moveaxis(values.T, -1, 0)[:, None]


def read_matlab_h5(reader: H5Reader, options: ReadOptions) -> Found:
    names = [name for name in reader.handle if not name.startswith("#")]
    x, y = options.choose_pair(names, reader.path)
    inputs = MatlabH5Array(reader, x)
    shape = require_numeric(reader.handle, y, reader.path).shape[::-1]
    at = _time_step(inputs.shape, shape, options.steps[1], reader.path)
    outputs = inputs if y == x else MatlabH5Array(reader, y, at)
    states = None if at is None else Trajectories(MatlabH5States(reader, y))
    return _found(reader.path, (x, y), inputs, outputs, at, states, options)


def read_matlab(path: Path, options: ReadOptions) -> Found:
    find_elements(path)  # which ends where the file does
    with reading(path):
        shapes = {name: (shape, kind) for name, shape, kind in io.whosmat(path)}
    x, y = options.choose_pair(list(shapes), path)
    _check_claims(path, {key: shapes[key] for key in (x, y)})
    check_numbers(path, (x, y))
    with reading(path):
        content = io.loadmat(path, variable_names=[x, y])
    for key in (x, y):
        if content[key].dtype.kind not in "fiub":
            raise InputError(f"{path}: '{key}' has type {content[key].dtype}; real numbers are expected")
    outputs = content[y]
    at = _time_step(content[x].shape, outputs.shape, options.steps[1], path)
    inputs = HeldArray(content[x])
    answers = inputs if y == x else HeldArray(outputs if at is None else outputs[..., at])
    states = None if at is None else Trajectories(MemoryStates(np.moveaxis(outputs, -1, 1)[:, :, None]))
    return _found(path, (x, y), inputs, answers, at, states, options)


def _check_claims(path: Path, shapes: Mapping[str, tuple[tuple[int, ...], str]]) -> None:
    """The arrays are loaded whole: what their headers claim must be numbers, fit the file, and fit into memory."""
    size, total = path.stat().st_size, 0
    for key, (shape, kind) in shapes.items():
        if kind not in _BYTES:
            raise InputError(f"{path}: '{key}' has type {kind}; real numbers are expected")
        total += (claimed := math.prod(shape) * _BYTES[kind])
        check_packed(f"{path}: '{key}'", claimed, size)
    check_memory(str(path), total)


def _time_step(x: tuple[int, ...], y: tuple[int, ...], step: int, path: Path) -> int | None:
    """The index of the last axis of y when it has one axis more than x: time."""
    if len(y) != len(x) + 1:
        return None
    if not -y[-1] <= step < y[-1]:
        raise InputError(f"{path} has {y[-1]} time steps; step {step} was asked for")
    return step % y[-1]


def _found(
    path: Path,
    names: tuple[str, str],
    x: LazyArray,
    y: LazyArray,
    step: int | None,
    states: Trajectories | None,
    options: ReadOptions,
) -> Found:
    if len(x.shape) < 2 or len(y.shape) < 2:
        raise InputError(f"{path} has arrays of shape {x.shape} and {y.shape}; samples x grid is expected")
    metadata: dict[str, Any] = {"format": "Li et al. .mat", "keys": list(names)}
    if step is not None:
        metadata["steps"] = [0, step]
    samples = options.channel_rule.pair(x, y, f"{path}: '{names[0]}'")
    domain = _domain(names, len(samples.shapes[0]) - 2, step is not None)
    return Found({"samples": samples}, metadata, domain, {} if states is None else {"samples": states})


def _domain(names: tuple[str, str], axes: int, in_time: bool) -> Domain | None:
    """Li et al.'s Darcy flow is on nodes of the unit box, Burgers' and Navier-Stokes' equation on the unit torus."""
    if not 1 <= axes <= 3:
        return None
    if names == ("coeff", "sol"):
        return Box((1.0,) * axes, "nodes")
    return Torus((1.0,) * axes) if names == ("a", "u") and (axes == 1 or in_time) else None
