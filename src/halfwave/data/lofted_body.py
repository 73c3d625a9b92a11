"""Closed bodies lofted through rounded cross-sections: one surface, meshed at any fineness in the same coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from halfwave.data.surfaces import TriangleMesh
from halfwave.errors import InputError

# Mesh lines are spread evenly in arc length plus this much of the turning, so that rounded edges get their share.
_TURNING_SHARE = 0.6
_DENSE = 400

Profile = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class LoftedBody:
    """A body over the ground z = 0, driving towards -x, symmetric in y.

    `profile(x)` gives bottom, top and half width of the cross-section at station x, which is a rectangle with rounded
    corners; towards the nose (x = 0) and the tail (x = length) it shrinks to a point, through ends with rounded edges.
    `lean(x, t)` narrows it with height t in 0 .. 1 (1 where it does not).

    Surface coordinates: s from nose to tail and c around from the keel over the side y > 0 to the roof and back.
    """

    length: float
    profile: Profile
    nose_radius: float
    tail_radius: float
    corner_radius: float
    lean: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda x, t: np.ones(np.broadcast_shapes(x.shape, t.shape))

    def half_grid(self, rings: int, segments: int) -> np.ndarray:
        """Vertices of the half y >= 0: (rings + 2) x (segments / 2 + 1) x 3; the first and last ring are the poles."""
        if rings < 2 or segments < 4 or segments % 2:
            raise InputError(f"a body of {rings} rings and {segments} segments; at least 2, and an even number from 4")
        x, shrink = self._ends(rings + 2)
        across, up = self._section(segments // 2 + 1)
        bottom, top, width = (np.asarray(v, dtype=float)[:, None] for v in self.profile(x))
        height = (1 + shrink[:, None] * up) / 2
        y = width * shrink[:, None] * across * self.lean(x[:, None], height)
        z = bottom + (top - bottom) * height
        return np.stack([np.broadcast_to(x[:, None], y.shape), y, z], axis=-1)

    def _reference(self) -> tuple[float, float]:
        """Half width and half height of the middle cross-sections, which the rounding radii are measured against."""
        bottom, top, width = self.profile(np.linspace(0.25, 0.75, 11) * self.length)
        return float(np.mean(width)), float(np.mean(top - bottom) / 2)

    def _ends(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Stations x and the factor by which each cross-section shrinks, from 0 over 1 to 0."""
        half = min(self._reference())
        nose, tail = (min(radius, 0.95 * half) for radius in (self.nose_radius, self.tail_radius))
        corners = [(0.0, 0.0), (0.0, half), (self.length, half), (self.length, 0.0)]
        path = _rounded_path(corners, [nose, tail])
        # Even in the arc of the roof line, not of x alone: a steep windshield needs its share of the rings.
        roof = np.interp(path[:, 0], *self._roof_line()) * path[:, 1] / half
        x, shrink = _spread(path, count, along=np.column_stack([path, roof]))
        return x, shrink / half

    def _roof_line(self) -> tuple[np.ndarray, np.ndarray]:
        x = np.linspace(0, self.length, _DENSE)
        return x, np.asarray(self.profile(x)[1], dtype=float)

    def _section(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The unit cross-section from the keel (0, -1) over (1, 0) to the roof (0, 1)."""
        width, half = self._reference()
        radius = min(self.corner_radius, 0.95 * min(width, half))
        corners = [(0.0, -half), (width, -half), (width, half), (0.0, half)]
        across, up = _spread(_rounded_path(corners, [radius, radius]), count)
        return across / width, up / half


def _rounded_path(corners: list[tuple[float, float]], radii: list[float]) -> np.ndarray:
    """A dense polyline through right-angled `corners`, the inner ones rounded: P x 2."""
    parts = [np.array(corners[:1])]
    for i, radius in enumerate(radii, start=1):
        before, corner, after = (np.array(corners[j]) for j in (i - 1, i, i + 1))
        into, out = _unit(corner - before), _unit(after - corner)
        angle = np.linspace(0, math.pi / 2, _DENSE)[:, None]
        centre = corner - radius * into + radius * out
        arc = centre + radius * (np.sin(angle) * into - np.cos(angle) * out)
        parts += [_straight(parts[-1][-1], arc[0]), arc]
    return np.concatenate([*parts, _straight(parts[-1][-1], np.array(corners[-1])), np.array(corners[-1:])])


def _straight(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Points between `start` and `end`, both left out."""
    return start + np.linspace(0, 1, _DENSE)[1:-1, None] * (end - start)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _spread(path: np.ndarray, count: int, along: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """`count` points of a polyline, its ends included, evenly in the arc length plus turning of it (or of `along`)."""
    step = np.diff(path if along is None else along, axis=0)
    arc = np.linalg.norm(step, axis=1)
    heading = step / arc[:, None]
    turn = np.linalg.norm(np.diff(heading, axis=0, append=heading[-1:]), axis=1)
    measure = arc / arc.sum() + _TURNING_SHARE * turn / turn.sum()
    position = np.concatenate([[0.0], np.cumsum(measure)])
    at = np.linspace(0, position[-1], count)
    return np.interp(at, position, path[:, 0]), np.interp(at, position, path[:, 1])


def half_mesh(grid: np.ndarray) -> TriangleMesh:
    """The half y >= 0 as triangles: its vertices are those of `half_grid` ring by ring, each pole once."""
    rings, columns = grid.shape[0] - 2, grid.shape[1]
    vertices = np.concatenate([grid[:1, 0], grid[1:-1].reshape(-1, 3), grid[-1:, 0]])
    return TriangleMesh(vertices, _triangles(_numbers(rings, columns)))


def full_mesh(grid: np.ndarray) -> TriangleMesh:
    """The whole body: nose, then the vertices of each ring from the keel over y > 0 to the roof and back, then tail."""
    rings, columns = grid.shape[0] - 2, grid.shape[1]
    ring_vertices = mirror_rings(grid[1:-1]) * 1.0
    ring_vertices[:, columns:, 1] *= -1
    vertices = np.concatenate([grid[:1, 0], ring_vertices.reshape(-1, 3), grid[-1:, 0]])
    numbers = _numbers(rings, 2 * columns - 2)
    right = numbers[:, :columns]
    left = numbers[:, [0, *range(2 * columns - 3, columns - 2, -1)]]  # mirrored columns, so the triangles are mirrored
    return TriangleMesh(vertices, np.concatenate([_triangles(right), _triangles(left)[:, ::-1]]))


def mirror_rings(half: np.ndarray) -> np.ndarray:
    """rings x (segments / 2 + 1) x ... -> rings x segments x ...: the other side has the same values."""
    return np.concatenate([half, half[:, -2:0:-1]], axis=1)


def _numbers(rings: int, columns: int) -> np.ndarray:
    """Vertex numbers on the (rings + 2) x columns grid whose first and last row are single points."""
    inner = 1 + np.arange(rings * columns).reshape(rings, columns)
    nose, tail = np.zeros((1, columns), dtype=np.int64), np.full((1, columns), 1 + rings * columns)
    return np.concatenate([nose, inner, tail])


def _triangles(numbers: np.ndarray) -> np.ndarray:
    """Two triangles a cell, one at the poles, facing outwards for the side y > 0."""
    a, b = numbers[:-1, :-1].ravel(), numbers[:-1, 1:].ravel()
    c, d = numbers[1:, :-1].ravel(), numbers[1:, 1:].ravel()
    both = np.concatenate([np.stack([a, b, d], axis=1), np.stack([a, d, c], axis=1)])
    return both[(both[:, 0] != both[:, 1]) & (both[:, 1] != both[:, 2]) & (both[:, 2] != both[:, 0])]
