"""Potential flow about a body by constant-strength source panels (Hess and Smith 1967), with mirror planes.

Inviscid, incompressible, without lift or wake: the flow stays attached and closes behind the body, so there is no drag.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from halfwave.data.surfaces import TriangleMesh

# Panels closer than this many of their diameters are integrated exactly, the others act from their centroids. Against
# 12 diameters this changes the pressure coefficient of a car by 0.0008 (root mean square) and halves the time.
_NEAR_DIAMETERS = 3.0
_ROWS = 32  # targets at a time, so that the temporaries stay in the cache


def surface_velocity(
    mesh: TriangleMesh, mirrors: Sequence[int] = (), stream: Sequence[float] = (1.0, 0.0, 0.0)
) -> np.ndarray:
    """Velocity of the fluid at the centroid of each triangle (F x 3), in a uniform `stream` at infinity.

    Each triangle j is a source of strength s_j per area, v(x) = stream + sum_j s_j / 4 pi int_j (x - y) / |x - y|^3 dy,
    and no fluid crosses the surface at the centroids:  n_i . v(x_i) = 0, a dense system of the second kind.

    `mirrors` lists axes whose coordinate plane through 0 mirrors the flow: (2,) is the ground z = 0, and (1, 2) also
    the symmetry y = 0 of a body of which the mesh is the half y > 0. The stream must lie in these planes.
    """
    normals = torch.from_numpy(mesh.normals)
    onset = torch.tensor(stream, dtype=torch.float64)
    if any(stream[axis] for axis in mirrors):
        raise ValueError(f"a stream {tuple(stream)} crosses a mirror plane; mirrors are {tuple(mirrors)}")
    influence = _influence(mesh, mirrors)
    crossing = sum((normals[:, axis, None] * influence[axis] for axis in range(1, 3)), normals[:, :1] * influence[0])
    strengths = _solve(crossing, -(normals @ onset))
    return (onset + (influence @ strengths).T).numpy()


def _solve(matrix: Tensor, rhs: Tensor) -> Tensor:
    """A float64 solution from a float32 factorisation: its errors of 1e-6 shrink by that much in each correction."""
    factors, pivots = torch.linalg.lu_factor(matrix.float())
    solution = torch.zeros_like(rhs)
    for _ in range(3):
        residual = rhs - matrix @ solution
        scale = residual.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
        correction = torch.linalg.lu_solve(factors, pivots, (residual / scale).float()[:, None])[:, 0]
        solution += correction.double() * scale
    return solution


def pressure_coefficient(velocity: np.ndarray, speed: float = 1.0) -> np.ndarray:
    """Bernoulli: cp = 1 - |v|^2 / speed^2."""
    return 1 - (velocity**2).sum(axis=-1) / speed**2


def _influence(mesh: TriangleMesh, mirrors: Sequence[int]) -> Tensor:
    """3 x F x F: the velocity at centroid i of a unit strength on triangle j and on its mirror images."""
    total = torch.zeros(3, len(mesh.areas), len(mesh.areas), dtype=torch.float64)
    for flipped in itertools.product((1.0, -1.0), repeat=len(mirrors)):
        signs = np.ones(3)
        signs[list(mirrors)] = flipped
        # The image of panel j acts on x as panel j acts on the image of x, mirrored.
        _add_influence(total, mesh, signs, direct=all(flip > 0 for flip in flipped))
    return total


def _add_influence(total: Tensor, mesh: TriangleMesh, signs: np.ndarray, direct: bool) -> None:
    targets = mesh.centroids * signs
    x, y = torch.from_numpy(targets), torch.from_numpy(mesh.centroids)
    weight = torch.from_numpy(mesh.areas) / (4 * math.pi)
    for first in range(0, len(targets), _ROWS):
        block = x[first : first + _ROWS]
        for axis, part in enumerate(_centroid_velocity([block[:, None, a] - y[None, :, a] for a in range(3)], weight)):
            total[axis, first : first + _ROWS].add_(part, alpha=signs[axis])
    rows, columns = _near_pairs(mesh, targets)
    exact = _panel_velocity(mesh, targets, rows, columns, direct)
    coarse = _centroid_velocity(list((x[rows] - y[columns]).unbind(dim=1)), weight[columns])
    for axis in range(3):
        total[axis].index_put_((rows, columns), signs[axis] * (exact[:, axis] - coarse[axis]), accumulate=True)


def _centroid_velocity(offset: list[Tensor], weight: Tensor) -> list[Tensor]:
    """weight * offset / |offset|^3 by components; 0 at the centroid itself."""
    squared = offset[0] ** 2
    for part in offset[1:]:
        squared.addcmul_(part, part)
    inverse = squared.clamp_min_(1e-60).rsqrt_()
    factor = inverse**3 * weight
    return [part * factor for part in offset]


def _near_pairs(mesh: TriangleMesh, targets: np.ndarray) -> tuple[Tensor, Tensor]:
    """(targets, triangles) that are close to each other, each pair once."""
    diameters = np.linalg.norm(mesh.corners - np.roll(mesh.corners, 1, axis=1), axis=2).max(axis=1)
    from scipy.spatial import cKDTree  # here: it takes longer to import than all readers

    tree = cKDTree(targets)
    found = tree.query_ball_point(mesh.centroids, _NEAR_DIAMETERS * diameters)
    columns = np.repeat(np.arange(len(found)), [len(near) for near in found])
    rows = np.fromiter(itertools.chain.from_iterable(found), dtype=np.int64, count=len(columns))
    return torch.from_numpy(rows), torch.from_numpy(columns)


def _panel_velocity(mesh: TriangleMesh, targets: np.ndarray, rows: Tensor, columns: Tensor, direct: bool) -> Tensor:
    """Exact velocity of unit strength on a flat triangle:  (sum over edges m L + n Omega) / 4 pi.

    m is the edge's outward normal in the plane of the triangle, L = ln((r1 + r2 + l) / (r1 + r2 - l)) with the
    distances r1, r2 to its ends and its length l; Omega is the solid angle of the triangle, signed by the side that the
    point is on (van Oosterom and Strackee 1983).
    """
    corners, normals = torch.from_numpy(mesh.corners)[columns], torch.from_numpy(mesh.normals)[columns]
    to_corner = corners - torch.from_numpy(targets)[rows][:, None]
    distance = to_corner.norm(dim=2)
    omega = _solid_angle(to_corner, distance)
    if direct:
        omega[rows == columns] = 2 * math.pi  # on the panel itself: the limit from outside
    velocity = normals * omega[:, None]
    for i in range(3):
        j = (i + 1) % 3
        edge = corners[:, j] - corners[:, i]
        length = edge.norm(dim=1)
        both = distance[:, i] + distance[:, j]
        logarithm = torch.log((both + length) / (both - length).clamp_min(1e-12 * length))
        velocity += torch.linalg.cross(edge / length[:, None], normals) * logarithm[:, None]
    return velocity / (4 * math.pi)


def _solid_angle(to_corner: Tensor, distance: Tensor) -> Tensor:
    a, b, c = to_corner.unbind(dim=1)
    ra, rb, rc = distance.unbind(dim=1)
    triple = (a * torch.linalg.cross(b, c)).sum(dim=1)
    bottom = ra * rb * rc + (a * b).sum(dim=1) * rc + (b * c).sum(dim=1) * ra + (c * a).sum(dim=1) * rb
    # The corners run counter-clockwise about the outward normal, so the triple product is negative seen from outside.
    return -2 * torch.atan2(triple, bottom)
