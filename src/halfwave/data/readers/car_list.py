"""neuraloperator's lists of cars (`mini_car.pt`): one dictionary a body, with its vertices and the pressure on them.

    vertices        n x 3, or 1 x n x 3
    press           n values, or 1 x n: pressure at the vertices; of ShapeNet's 3,682, 96 belong to no vertex
    distance        X x Y x Z (x 1): signed distance at query_points
    query_points    X x Y x Z x 3: nodes of a regular grid around the body
    vertex_normals, triangle_areas    in some files

Where a file has no normals they are the direction in which its distance grows. Without areas every vertex counts alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from halfwave.data.point_dataset import PointDataset, PointSplit
from halfwave.data.readers.common import ReadOptions
from halfwave.data.readers.torch_content import require_tensor
from halfwave.data.refusals import reading
from halfwave.errors import InputError

_EXTRA = slice(16, 112)
_NEEDED = ("vertices", "press")


def is_car_list(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and all(isinstance(item, Mapping) for item in content)


def read_car_list(path: Path, content: Sequence[Mapping[str, Any]], options: ReadOptions) -> PointDataset:
    for number, item in enumerate(content):
        missing = [name for name in _NEEDED if name not in item]
        if missing:
            raise InputError(f"{path}: car {number} has no {missing[0]!r}; it holds {', '.join(map(str, item))}")
    held_out = options.n_test or max(1, len(content) // 5)
    if held_out >= len(content):
        raise InputError(f"{path} has {len(content)} cars; more than the {held_out} of the test split are needed")
    cut = len(content) - held_out
    train, test = CarList(path, content[:cut], 0), CarList(path, content[cut:], cut)
    metadata = {"format": "neuraloperator car list", "parameter_names": []}
    return PointDataset(path, metadata, PointSplit(path, "train", train), PointSplit(path, "test", test))


class CarList:
    """Some cars of the list; what a sample needs is worked out when it is asked for."""

    def __init__(self, path: Path, cars: Sequence[Mapping[str, Any]], first: int) -> None:
        self.path, self.cars, self.first = path, cars, first

    def __len__(self) -> int:
        return len(self.cars)

    def read(self, index: int) -> dict[str, np.ndarray]:
        with reading(self.path, f"car {self.first + index}"):
            return self._read(self.cars[index], f"{self.path}: car {self.first + index}")

    def _read(self, car: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
        points = _values(car["vertices"], where).reshape(-1, 3)
        pressure = _values(car["press"], where).reshape(-1)
        if len(pressure) == len(points) + _EXTRA.stop - _EXTRA.start:
            pressure = np.delete(pressure, _EXTRA)
        return {
            "points": points,
            "normals": _normals(car, points, where),
            "areas": np.full(len(points), 1 / len(points)),
            "pressure": pressure,
            "parameters": np.zeros(0),
        }


def _normals(car: Mapping[str, Any], points: np.ndarray, where: str) -> np.ndarray:
    if "vertex_normals" in car:
        return _values(car["vertex_normals"], where).reshape(-1, 3)
    if not {"distance", "query_points"} <= set(car):
        raise InputError(f"{where} has neither vertex_normals nor distance at query_points, from which normals follow")
    nodes = np.squeeze(_values(car["query_points"], where))
    distance = _values(car["distance"], where).reshape(nodes.shape[:3])
    axes = (nodes[:, 0, 0, 0], nodes[0, :, 0, 1], nodes[0, 0, :, 2])
    if any((np.diff(axis) <= 0).any() for axis in axes):
        raise InputError(f"{where}: query_points are no regular grid, x y z along its axes")
    from scipy.interpolate import RegularGridInterpolator  # here: it takes longer to import than all readers

    slopes = np.stack(np.gradient(distance, *axes), axis=-1)
    inside = np.clip(points, [axis[0] for axis in axes], [axis[-1] for axis in axes])
    found = RegularGridInterpolator(axes, slopes)(inside)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


def _values(value: Any, where: str) -> np.ndarray:
    return require_tensor(value, where).double().numpy()
