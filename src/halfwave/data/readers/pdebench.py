"""PDEBench's HDF5 layouts (Takamoto et al. 2022).

    steady           nu (N x grid) and tensor (N x 1 x grid): nu -> tensor
    one field        tensor (N x time x grid)
    several fields   density, pressure, Vx, Vy, Vz (each N x time x grid)
    by seed          one group a sample, each with data (time x grid x C)

Of the last three, `steps` are input and output: state(first) -> state(second).

Coordinates (`x-coordinate`, .. or `<seed>/grid/x`, ..) are centres of cells, in all of its solvers. What is beyond the
boundary the files do not say: fields of a periodic problem need `domain="torus"`.
"""

from __future__ import annotations

import h5py
import numpy as np

from halfwave.data.arrays import ArrayPair, H5Array, LazyArray, Stacked, WithChannel
from halfwave.data.h5_reading import H5Reader, require_numeric
from halfwave.data.readers.common import Found, ReadOptions, side_length
from halfwave.data.refusals import reading
from halfwave.data.trajectories import H5States, StackedStates, States, Trajectories
from halfwave.domains import Box, Domain
from halfwave.errors import InputError

FLUID_FIELDS = ("density", "pressure", "Vx", "Vy", "Vz")


def is_pdebench(file: h5py.File) -> bool:
    return "tensor" in file or "density" in file or bool(_seeds(file))


def read_pdebench(reader: H5Reader, options: ReadOptions) -> Found:
    file, steps = reader.handle, options.steps
    if "nu" in file and "tensor" in file:
        steady = options.channel_rule.pair(H5Array(reader, "nu"), H5Array(reader, "tensor"), str(reader.path))
        return Found({"samples": steady}, {"format": "PDEBench"}, _domain(file, steady.shapes[0][2:]))
    if "tensor" in file:
        x, y = (_field(reader, "tensor", step) for step in steps)
        states: States = H5States(reader, "tensor", components=0)
    elif "density" in file:
        names = [name for name in FLUID_FIELDS if name in file]
        x, y = (_stack(reader, names, step) for step in steps)
        states = StackedStates(tuple(H5States(reader, name, components=0) for name in names))
    else:
        x, y = (SeedArray(reader, step) for step in steps)
        states = SeedStates(reader)
    found, domain = {"samples": Trajectories(states)}, _domain(file, x.shape[2:])
    return Found({"samples": ArrayPair(x, y)}, {"format": "PDEBench", "steps": list(steps)}, domain, found)


def _domain(file: h5py.File, grid: tuple[int, ...]) -> Domain | None:
    """A box with the sides that the file's coordinates tell, if it has them all."""
    if not 1 <= len(grid) <= 3:
        return None
    seeds = _seeds(file)
    names = [f"{seeds[0]}/grid/{axis}" if seeds else f"{axis}-coordinate" for axis in "xyz"[: len(grid)]]
    found = [file.get(name) for name in names]
    if not all(isinstance(coordinates, h5py.Dataset) for coordinates in found):
        return None
    sides = [side_length(coordinates, n) for coordinates, n in zip(found, grid, strict=True)]
    return None if None in sides else Box(tuple(side for side in sides if side), "cells")


def _field(reader: H5Reader, key: str, step: int) -> LazyArray:
    return WithChannel(H5Array(reader, key, step))


def _stack(reader: H5Reader, names: list[str], step: int) -> LazyArray:
    fields = [_field(reader, name, step) for name in names]
    for name, array in zip(names, fields, strict=True):
        if array.shape != fields[0].shape:
            raise InputError(f"{reader.path}: '{name}' differs in shape from '{names[0]}'; fields must share one grid")
    return Stacked(tuple(fields))


def _seeds(file: h5py.File) -> list[str]:
    return sorted(name for name, group in file.items() if isinstance(group, h5py.Group) and "data" in group)


class SeedArray:
    """One time step of the samples `<seed>/data` (time x grid x C), as N x C x grid."""

    def __init__(self, reader: H5Reader, step: int) -> None:
        self.reader = reader
        self.keys = [f"{seed}/data" for seed in _seeds(reader.handle)]
        shapes = {require_numeric(reader.handle, key, reader.path).shape for key in self.keys}
        if len(shapes) != 1 or len(stored := shapes.pop()) < 3:
            raise InputError(f"{reader.path}: the samples must all have one shape, time x grid x channels")
        if not -stored[0] <= step < stored[0]:
            raise InputError(f"{reader.path} has {stored[0]} time steps; step {step} was asked for")
        self.step = step % stored[0]
        self.shape = (len(self.keys), stored[-1], *stored[1:-1])

    def read(self, indices: np.ndarray) -> np.ndarray:
        values = np.empty((len(indices), *self.shape[1:]), dtype=np.float32)
        for row, index in enumerate(indices):
            with reading(self.reader.path, self.keys[index]):
                values[row] = np.moveaxis(self.reader.handle[self.keys[index]][self.step], -1, 0)
        return values


class SeedStates:
    """All states of the samples `<seed>/data` (time x grid x C), as N x time x C x grid."""

    def __init__(self, reader: H5Reader) -> None:
        self.reader = reader
        self.keys = [f"{seed}/data" for seed in _seeds(reader.handle)]
        stored = require_numeric(reader.handle, self.keys[0], reader.path).shape
        self.shape = (len(self.keys), stored[0], stored[-1], *stored[1:-1])

    def read(self, index: int, steps: slice) -> np.ndarray:
        with reading(self.reader.path, self.keys[index]):
            return np.moveaxis(self.reader.handle[self.keys[index]][steps], -1, 1)
