import numpy as np
import pytest
import torch
from meshes import icosphere

from halfwave.data.distance import query_grid, signed_distance
from halfwave.data.point_dataset import PointSample
from halfwave.errors import InputError


@pytest.fixture(scope="module")
def sphere():
    mesh = icosphere(12)
    arrays = (mesh.vertices, mesh.vertex_normals, mesh.vertex_areas, np.zeros(len(mesh.vertices)), np.zeros(0))
    return PointSample(*(torch.from_numpy(a).float() for a in arrays))


def test_distance_to_a_sphere(sphere):
    grid = query_grid(torch.full((3,), -2.0), torch.full((3,), 2.0), (12, 13, 14))
    assert grid.shape == (12, 13, 14, 3)
    queries = grid.reshape(-1, 3)
    exact = queries.norm(dim=1) - 1
    found = signed_distance(sphere, queries)
    assert (found - exact).abs().max() < 0.03
    assert (torch.sign(found) == torch.sign(exact))[exact.abs() > 0.02].all()


def test_queries_of_the_wrong_shape_are_refused(sphere):
    with pytest.raises(InputError, match=r"\(4, 2\)"):
        signed_distance(sphere, torch.zeros(4, 2))
