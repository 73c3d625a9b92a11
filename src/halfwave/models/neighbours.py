"""Radius neighbours: for every query point q the data points x with |x - q| <= r, in compressed rows (CSR).

On a CPU a KD-tree finds them (scipy, float64 distances of the given coordinates); elsewhere a search by brute force
in chunks of queries, so that no table of all distances is held. Both give the same rows, sorted by data point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halfwave.numerics import outside_the_compiler

# Distances held at once by the search in chunks: 128 MiB in float64.
CHUNK_DISTANCES = 1 << 24


@dataclass(frozen=True)
class Neighbours:
    """Row q of the CSR form: data points `index[splits[q] : splits[q + 1]]`; `splits` has one entry more than queries.

    A query without neighbours has an empty row.
    """

    index: Tensor
    splits: Tensor


def find_neighbours(data: Tensor, queries: Tensor, radius: float) -> Neighbours:
    """Neighbours of `queries` (Q, d) among `data` (N, d) within `radius`, the boundary included.

    Points may lie anywhere, outside the unit box as well. ValueError for NaN or infinite coordinates, for no data
    points, for point sets of different dimension and for a radius that is not a positive number.
    """
    check_points("data points", data)
    check_points("query points", queries)
    if data.shape[1] != queries.shape[1]:
        raise ValueError(f"data points have {data.shape[1]} coordinates and query points {queries.shape[1]}")
    if not (radius > 0 and math.isfinite(radius)):
        raise ValueError(f"radius must be a positive number, got {radius!r}")
    search = search_tree if data.device.type == "cpu" else search_chunks
    return search(data.detach(), queries.detach(), radius)


@outside_the_compiler  # looks at the data
def check_points(name: str, points: Tensor) -> None:
    """ValueError unless `points` are (n, d) finite coordinates with n >= 1."""
    if points.ndim != 2 or not points.shape[0] or not points.shape[1]:
        raise ValueError(f"{name} must be (points, coordinates) with at least one point, got {tuple(points.shape)}")
    if points.device.type != "meta" and not points.isfinite().all():
        raise ValueError(f"{name} hold NaN or infinite coordinates")


def search_tree(data: Tensor, queries: Tensor, radius: float) -> Neighbours:
    from scipy.spatial import cKDTree  # here: it takes longer to import than a model to build

    trees = [cKDTree(points.double().numpy()) for points in (queries, data)]
    found = trees[0].sparse_distance_matrix(trees[1], radius, output_type="ndarray")
    order = np.lexsort((found["j"], found["i"]))
    rows = np.bincount(found["i"], minlength=len(queries))
    splits = np.concatenate([[0], np.cumsum(rows)])
    index = np.ascontiguousarray(found["j"][order])
    return Neighbours(torch.from_numpy(index).long(), torch.from_numpy(splits).long())


def search_chunks(data: Tensor, queries: Tensor, radius: float) -> Neighbours:
    # Apple's GPU has no float64.
    dtype = torch.float32 if data.device.type == "mps" else torch.float64
    points = data.to(dtype)
    index, rows = [], []
    for chunk in queries.to(dtype).split(max(1, CHUNK_DISTANCES // len(data))):
        # Not through |x|² + |q|² - 2 x·q, which cancels: neighbours on the boundary would come and go.
        near = torch.cdist(chunk, points, compute_mode="donot_use_mm_for_euclid_dist") <= radius
        index.append(near.nonzero()[:, 1])
        rows.append(near.sum(1))
    counts = torch.cat(rows)
    return Neighbours(torch.cat(index), torch.cat([counts.new_zeros(1), counts.cumsum(0)]))
