"""A dataset of point clouds: each sample has its own geometry and the pressure on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import torch
from torch import Tensor

from halfwave.data.generator import SPLITS
from halfwave.data.h5_reading import H5Reader, require_numeric
from halfwave.data.placement import Placement
from halfwave.data.refusals import reading
from halfwave.domains import Cloud, Domain
from halfwave.errors import InputError

FIELDS = {"points": (3,), "normals": (3,), "areas": (), "pressure": ()}
"""What each point has, and the shape of it."""


@dataclass(frozen=True)
class PointSample:
    """P points of one surface (float32): points and outward normals P x 3, areas and pressure P, parameters Q.

    Where the pressure is yet to be predicted there are 0 values of it.
    """

    points: Tensor
    normals: Tensor
    areas: Tensor
    pressure: Tensor
    parameters: Tensor


class PointSource(Protocol):
    """Where a split gets its samples from."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> dict[str, np.ndarray]:
        """The arrays of `FIELDS` and `parameters` of one sample."""
        ...


class PointSplit:
    """N point clouds, read one by one when asked for; NaN and infinity are refused."""

    def __init__(self, path: Path, name: str, source: PointSource) -> None:
        self.path, self.name = path, name
        self.source = source
        if not len(source):
            raise InputError(f"{path}: {name} has no samples")

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> PointSample:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} is out of range; there are {len(self)}")
        number = index % len(self)
        arrays = self.source.read(number)
        self._check(arrays, number)
        tensors = {name: torch.from_numpy(np.array(a, dtype=np.float32)) for name, a in arrays.items()}
        return PointSample(**{"pressure": torch.zeros(0), **tensors})

    def __iter__(self) -> Iterator[PointSample]:
        return (self[i] for i in range(len(self)))

    def _check(self, arrays: dict[str, np.ndarray], number: int) -> None:
        count = len(arrays["points"])
        for name, array in arrays.items():
            if name in FIELDS and array.shape != (count, *FIELDS[name]):
                raise InputError(
                    f"{self.path}: {self.name} sample {number} has {name} of shape {array.shape} for {count} points"
                )
            if not np.isfinite(array).all():
                raise InputError(f"{self.path}: {self.name}/{name} holds NaN or infinity in sample {number}")

    def __repr__(self) -> str:
        return f"PointSplit({self.name}: {len(self)} clouds)"


@dataclass(frozen=True)
class PointDataset:
    """Train and test splits of point clouds, with what the file says about itself."""

    path: Path
    metadata: dict[str, Any]
    train: PointSplit
    test: PointSplit

    @property
    def domain(self) -> Domain:
        return self.placement.domain

    @property
    def placement(self) -> Placement:
        """A cloud: the layout itself declares it."""
        return Placement(Cloud())

    def understood(self) -> str:
        """How the file was read, in one line."""
        names = f", parameters {', '.join(self.parameter_names)}" if self.parameter_names else ""
        return f"{self.path.name}: {self.n_train} + {self.n_test} point clouds{names}"

    @property
    def n_train(self) -> int:
        return len(self.train)

    @property
    def n_test(self) -> int:
        return len(self.test)

    @property
    def parameter_names(self) -> Sequence[str]:
        return self.metadata.get("parameter_names", [])


class Thinned:
    """The first `limit` clouds, every `stride`-th point of each; areas grow so that their sum stays about the same."""

    def __init__(self, source: PointSource, stride: int, limit: int | None) -> None:
        self.source, self.stride, self.limit = source, stride, limit

    def __len__(self) -> int:
        return len(self.source) if self.limit is None else min(self.limit, len(self.source))

    def read(self, index: int) -> dict[str, np.ndarray]:
        arrays = self.source.read(index)
        thin = {name: a if name == "parameters" else a[:: self.stride] for name, a in arrays.items()}
        return {**thin, "areas": thin["areas"] * self.stride}


class H5Cloud:
    """One split in the `points` layout of `store`."""

    def __init__(self, reader: H5Reader, split: str, fields: Mapping[str, tuple[int, ...]] = FIELDS) -> None:
        self.reader, self.split, self.fields = reader, split, fields
        shapes = {name: self._shape(name) for name in (*fields, "parameters", "offsets")}
        with reading(reader.path, f"{split}/offsets"):
            self.offsets = _whole_numbers(reader.handle[f"{split}/offsets"], f"{reader.path}: {split}")
        self._check(shapes)

    def _shape(self, name: str) -> tuple[int, ...]:
        return require_numeric(self.reader.handle, f"{self.split}/{name}", self.reader.path).shape

    def _check(self, shapes: dict[str, tuple[int, ...]]) -> None:
        where = f"{self.reader.path}: {self.split}"
        if (
            self.offsets.ndim != 1
            or len(self.offsets) < 2
            or self.offsets[0] != 0
            or (np.diff(self.offsets) <= 0).any()
        ):
            raise InputError(f"{where}/offsets must be 0 and then grow with every sample")
        for name, tail in self.fields.items():
            if shapes[name] != (self.offsets[-1], *tail):
                raise InputError(
                    f"{where}/{name} has shape {shapes[name]}; {(int(self.offsets[-1]), *tail)} is expected"
                )
        if len(shapes["parameters"]) != 2 or shapes["parameters"][0] != len(self):
            raise InputError(f"{where}/parameters has shape {shapes['parameters']}; {len(self)} rows are expected")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def read(self, index: int) -> dict[str, np.ndarray]:
        group = self.reader.handle[self.split or "/"]
        rows = slice(self.offsets[index], self.offsets[index + 1])
        with reading(self.reader.path, self.split):
            arrays = {name: group[name][rows] for name in self.fields}
            return {**arrays, "parameters": group["parameters"][index]}


def _whole_numbers(dataset: h5py.Dataset, where: str) -> np.ndarray:
    """Offsets as int64: of unsigned numbers that go down every difference would be a large one up."""
    if dataset.dtype.kind not in "iu":
        raise InputError(f"{where}/offsets has type {dataset.dtype}; whole numbers are expected")
    values = dataset[:]
    if values.size and values.max() > np.iinfo(np.int64).max:
        raise InputError(f"{where}/offsets has {values.max()}, which is no number of points")
    return values.astype(np.int64)


def read_h5_clouds(reader: H5Reader, metadata: dict[str, Any]) -> PointDataset:
    """A file in the `points` layout of `store`."""
    train, test = (PointSplit(reader.path, split, H5Cloud(reader, split)) for split in SPLITS)
    return PointDataset(reader.path, metadata, train, test)
