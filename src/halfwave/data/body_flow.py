"""Bodies over the ground in a wind and the pressure on them, as samples of a point-cloud dataset."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn.functional import interpolate

from halfwave.data.generator import Arrays, sample_rng
from halfwave.data.lofted_body import LoftedBody, full_mesh, half_mesh, mirror_rings
from halfwave.data.panel_method import pressure_coefficient, surface_velocity
from halfwave.domains import Cloud
from halfwave.errors import InputError

AIR_DENSITY = 1.2
"""kg / m^3"""

PANEL_RINGS, PANEL_SEGMENTS = 56, 64
"""The mesh that is solved: 3,586 vertices, 7,168 triangles. A finer cloud is interpolated from it."""

SOLVER = (
    "inviscid potential flow, source panels, ground plane as an image, attached everywhere; "
    "not RANS: no boundary layer, separation or drag"
)


class BodyGenerator(ABC):
    """A law of bodies whose parameters are uniform in `ranges`; a frozen dataclass with a field `points`."""

    chunk: ClassVar[int] = 1
    channels: ClassVar[tuple[int, int]] = (0, 1)
    ranges: ClassVar[dict[str, tuple[float, float]]]
    equation: ClassVar[str]
    points: int

    @property
    def domain(self) -> Cloud:
        return Cloud()

    def describe(self) -> dict[str, Any]:
        return {
            "layout": "points",
            "equation": self.equation,
            "parameters": {**asdict(self), "ranges": self.ranges},  # type: ignore[call-overload]
            "parameter_names": list(self.ranges),
            "solver": SOLVER,
            "resolution": list(mesh_size(self.points)),
        }

    def draw(self, seed: int, split: str, index: int) -> dict[str, float]:
        """The parameters of one sample."""
        rng = sample_rng(seed, split, index)
        return {name: float(rng.uniform(*bounds)) for name, bounds in self.ranges.items()}

    @abstractmethod
    def sample(self, seed: int, split: str, index: int) -> Arrays:
        """One cloud and the pressure on it."""

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        return [self.sample(seed, split, index) for index in indices]


def mesh_size(points: int) -> tuple[int, int]:
    """Rings and segments of the smallest mesh with `points` vertices or more, in about the panels' proportion.

    A mesh has rings x segments + 2 vertices: 3,586 points are exact, 100,000 become 100,002.
    """
    if points < 100:
        raise InputError(f"points is {points}; a body needs at least 100")
    even = math.sqrt((points - 2) * PANEL_SEGMENTS / PANEL_RINGS)
    candidates = range(2 * math.ceil(0.35 * even), math.floor(1.4 * even) + 1, 2)
    segments = min(candidates, key=lambda m: (-(points - 2) % m, abs(m - even)))
    return math.ceil((points - 2) / segments), segments


def surface_sample(body: LoftedBody, points: int, speed: float, parameters: list[float]) -> Arrays:
    """Points, outward normals, areas and gauge pressure (Pa) at the vertices of `body` in a wind of `speed` m/s."""
    rings, segments = mesh_size(points)
    mesh = full_mesh(body.half_grid(rings, segments))
    pressure = 0.5 * AIR_DENSITY * speed**2 * vertex_cp(body, rings, segments)
    arrays = {
        "points": mesh.vertices,
        "normals": mesh.vertex_normals,
        "areas": mesh.vertex_areas,
        "pressure": pressure,
        "parameters": np.array(parameters),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def vertex_cp(body: LoftedBody, rings: int, segments: int) -> np.ndarray:
    """Pressure coefficient at the vertices of `full_mesh`.

    Meshes up to the panel mesh are solved themselves; finer ones take the values of the panel mesh by linear
    interpolation in the surface coordinates, which both meshes share.
    """
    solved = (min(rings, PANEL_RINGS), min(segments, PANEL_SEGMENTS))
    cp = _solve_half(body, *solved)
    if solved != (rings, segments):
        grid = torch.from_numpy(cp)[None, None]
        cp = interpolate(grid, size=(rings + 2, segments // 2 + 1), mode="bilinear", align_corners=True)[0, 0].numpy()
    return np.concatenate([cp[:1, 0], mirror_rings(cp[1:-1]).ravel(), cp[-1:, 0]])


def _solve_half(body: LoftedBody, rings: int, segments: int) -> np.ndarray:
    """cp on the half grid: (rings + 2) x (segments / 2 + 1)."""
    mesh = half_mesh(body.half_grid(rings, segments))
    cp = mesh.to_vertices(pressure_coefficient(surface_velocity(mesh, mirrors=(1, 2))))
    columns = segments // 2 + 1
    ends = [np.full((1, columns), cp[i]) for i in (0, -1)]
    return np.concatenate([ends[0], cp[1:-1].reshape(rings, columns), ends[1]])
