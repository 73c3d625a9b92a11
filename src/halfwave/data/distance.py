"""Distance from the points of a grid to a surface: the geometry as a field, which a latent grid can hold."""

from __future__ import annotations

import torch
from torch import Tensor

from halfwave.data.point_dataset import PointSample
from halfwave.errors import InputError


def signed_distance(sample: PointSample, queries: Tensor) -> Tensor:
    """Distance of each query (Q x 3) to the nearest surface point, negative inside the body.

    The sign is the side of the nearest point's tangent plane that the query is on, and the distance within a point
    spacing of the surface is that to this plane: exact for a plane, first order in the spacing for a curved surface.
    """
    if queries.ndim != 2 or queries.shape[1] != 3:
        raise InputError(f"queries have shape {tuple(queries.shape)}; Q x 3 is expected")
    from scipy.spatial import cKDTree  # here: it takes longer to import than all readers

    tree = cKDTree(sample.points.double().numpy())
    distance, nearest = tree.query(queries.double().cpu().numpy())
    nearest_points, normals = sample.points[nearest], sample.normals[nearest]
    height = ((queries.cpu() - nearest_points) * normals).sum(dim=1)
    spacing = sample.areas[nearest].sqrt()
    magnitude = torch.from_numpy(distance).float()
    near = magnitude < spacing
    return torch.where(near, height, torch.where(height < 0, -magnitude, magnitude)).to(queries)


def query_grid(low: Tensor, high: Tensor, resolution: tuple[int, int, int]) -> Tensor:
    """The nodes of a regular grid over a box, ends included: X x Y x Z x 3."""
    axes = [torch.linspace(float(a), float(b), n) for a, b, n in zip(low, high, resolution, strict=True)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
