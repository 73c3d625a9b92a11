"""Triangle meshes of closed surfaces: areas, normals, and the proof that they are closed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from halfwave.errors import InputError


@dataclass(frozen=True)
class TriangleMesh:
    """V vertices (V x 3) and F triangles (F x 3 vertex numbers), counter-clockwise seen from outside."""

    vertices: np.ndarray
    triangles: np.ndarray

    def __post_init__(self) -> None:
        v, t = self.vertices, self.triangles
        if v.ndim != 2 or v.shape[1] != 3 or t.ndim != 2 or t.shape[1] != 3 or not len(t):
            raise InputError(f"vertices are {v.shape} and triangles {t.shape}; V x 3 and F x 3 are expected")
        if t.min() < 0 or t.max() >= len(v):
            raise InputError(f"triangles refer to vertices {t.min()} .. {t.max()}; there are {len(v)}")

    @cached_property
    def corners(self) -> np.ndarray:
        """F x 3 corners x 3 coordinates."""
        return self.vertices[self.triangles]

    @cached_property
    def centroids(self) -> np.ndarray:
        return self.corners.mean(axis=1)

    @cached_property
    def _area_vectors(self) -> np.ndarray:
        a, b, c = np.moveaxis(self.corners, 1, 0)
        return np.cross(b - a, c - a) / 2

    @cached_property
    def areas(self) -> np.ndarray:
        return np.linalg.norm(self._area_vectors, axis=1)

    @cached_property
    def normals(self) -> np.ndarray:
        """Unit outward normal of each triangle, F x 3."""
        return self._area_vectors / self.areas[:, None]

    @property
    def vertex_areas(self) -> np.ndarray:
        """A third of the triangles around each vertex: the weights of an integral over the surface."""
        return self._gather(self.areas / 3)

    @property
    def vertex_normals(self) -> np.ndarray:
        total = self._gather(self._area_vectors)
        return total / np.linalg.norm(total, axis=1, keepdims=True)

    def to_vertices(self, values: np.ndarray) -> np.ndarray:
        """Area-weighted means of what the triangles around each vertex hold."""
        return self._gather(values * self.areas) / self._gather(self.areas)

    def _gather(self, values: np.ndarray) -> np.ndarray:
        """Sum over the triangles around each vertex."""
        total = np.zeros((len(self.vertices), *values.shape[1:]))
        for corner in range(3):
            np.add.at(total, self.triangles[:, corner], values)
        return total
