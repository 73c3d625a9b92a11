"""Panels against the exact flow about a sphere, and meshes against exact areas and volumes."""

import math

import numpy as np
import pytest
from meshes import icosphere, is_closed, volume

from halfwave.data.panel_method import pressure_coefficient, surface_velocity
from halfwave.data.surfaces import TriangleMesh
from halfwave.errors import InputError


def sphere_errors(n):
    mesh = icosphere(n)
    cp = pressure_coefficient(surface_velocity(mesh))
    direction = mesh.centroids / np.linalg.norm(mesh.centroids, axis=1, keepdims=True)
    exact = 1 - 9 / 4 * (1 - direction[:, 0] ** 2)
    return np.abs(cp - exact)


def test_pressure_on_a_sphere_within_two_percent_and_converging():
    coarse, fine = sphere_errors(5), sphere_errors(10)  # 500 and 2,000 panels
    assert fine.max() < 0.02
    assert fine.mean() < 0.6 * coarse.mean()
    assert fine.max() < 0.7 * coarse.max()


def test_a_mirror_plane_is_the_same_as_the_mirrored_body():
    above = icosphere(3, centre=(0, 0, 1.3))
    below = TriangleMesh(above.vertices * [1, 1, -1], above.triangles[:, ::-1])
    both = TriangleMesh(
        np.concatenate([above.vertices, below.vertices]),
        np.concatenate([above.triangles, below.triangles + len(above.vertices)]),
    )
    mirrored = surface_velocity(above, mirrors=(2,))
    np.testing.assert_allclose(mirrored, surface_velocity(both)[: len(mirrored)], atol=1e-10)


def test_ground_speeds_up_the_flow_under_a_body():
    mesh = icosphere(5, centre=(0, 0, 1.1))
    cp = pressure_coefficient(surface_velocity(mesh, mirrors=(2,)))
    low, high = np.argmin(mesh.centroids[:, 2]), np.argmax(mesh.centroids[:, 2])
    assert cp[low] < cp[high] - 0.5


def test_no_fluid_crosses_the_surface():
    mesh = icosphere(4, centre=(0, 0, 1.5))
    velocity = surface_velocity(mesh, mirrors=(2,))
    assert np.abs((velocity * mesh.normals).sum(axis=1)).max() < 1e-10


def test_pressure_scales_with_speed_squared_and_stream_must_respect_mirrors():
    mesh = icosphere(3)
    slow, fast = surface_velocity(mesh), surface_velocity(mesh, stream=(3.0, 0.0, 0.0))
    np.testing.assert_allclose(pressure_coefficient(fast, 3.0), pressure_coefficient(slow), atol=1e-12)
    with pytest.raises(ValueError, match="mirror"):
        surface_velocity(mesh, mirrors=(0,))


def test_areas_normals_and_volume_of_a_sphere():
    mesh = icosphere(8)
    assert is_closed(mesh)
    assert mesh.areas.sum() == pytest.approx(4 * math.pi, rel=0.02)
    assert mesh.vertex_areas.sum() == pytest.approx(mesh.areas.sum())
    assert volume(mesh) == pytest.approx(4 / 3 * math.pi, rel=0.02)
    np.testing.assert_allclose(mesh.vertex_normals, mesh.vertices, atol=0.02)
    np.testing.assert_allclose(mesh.to_vertices(np.full(len(mesh.areas), 7.0)), 7.0)


def test_triangles_without_their_vertices_are_refused():
    mesh = icosphere(2)
    with pytest.raises(InputError, match="there are 2"):
        TriangleMesh(mesh.vertices[:2], mesh.triangles)
    with pytest.raises(InputError, match="V x 3"):
        TriangleMesh(mesh.vertices[:, :2], mesh.triangles)
