"""Cars and Ahmed bodies: closed surfaces, plausible pressures, exact scaling."""

import math

import numpy as np
import pytest
from meshes import is_closed, volume

from halfwave.data import Ahmed, Car, generate, open_point_dataset
from halfwave.data.ahmed import RANGES, STANDARD_AHMED, ahmed_body
from halfwave.data.body_flow import AIR_DENSITY, mesh_size, vertex_cp
from halfwave.data.car import car_body
from halfwave.data.lofted_body import full_mesh, half_mesh
from halfwave.errors import InputError

SMALL = 300


@pytest.mark.parametrize("index", range(12))
def test_every_body_is_watertight_symmetric_and_above_the_ground(index):
    for body in (car_body(**Car().draw(0, "train", index)), ahmed_geometry(index)):
        mesh = full_mesh(body.half_grid(20, 24))
        assert is_closed(mesh)
        assert volume(mesh) > 0
        assert mesh.areas.min() > 0
        assert mesh.vertices[:, 2].min() > 0.02
        mirrored = mesh.vertices * [1, -1, 1]
        order = [np.lexsort(np.round(v, 9).T) for v in (mesh.vertices, mirrored)]
        np.testing.assert_allclose(mesh.vertices[order[0]], mirrored[order[1]], atol=1e-12)
        half = half_mesh(body.half_grid(20, 24))
        assert half.vertices[:, 1].min() >= 0
        assert 2 * half.areas.sum() == pytest.approx(mesh.areas.sum())


def ahmed_geometry(index):
    drawn = Ahmed().draw(0, "train", index)
    return ahmed_body(**{name: value for name, value in drawn.items() if name != "velocity"})


def test_ahmed_body_has_the_standard_measures():
    vertices = full_mesh(ahmed_body(**STANDARD_AHMED).half_grid(80, 80)).vertices
    size = vertices.max(axis=0) - vertices.min(axis=0)
    np.testing.assert_allclose(size, [1.044, 0.389, 0.288], rtol=1e-6)
    assert vertices[:, 2].min() == pytest.approx(0.05)
    roof = vertices[(abs(vertices[:, 1]) < 1e-9) & (vertices[:, 2] > 0.2)]
    slant = roof[(roof[:, 0] > 1.044 - 0.2 * math.cos(math.radians(25))) & (roof[:, 0] < 1.0)]
    angle = math.degrees(math.atan(-np.polyfit(slant[:, 0], slant[:, 2], 1)[0]))
    assert angle == pytest.approx(25, abs=0.5)


def test_mesh_sizes():
    assert mesh_size(3586) == (56, 64)
    rings, segments = mesh_size(100_000)
    assert 100_000 <= rings * segments + 2 <= 100_010
    with pytest.raises(InputError, match="points is 50"):
        mesh_size(50)


def test_stagnation_at_the_nose_and_suction_on_the_roof():
    body = car_body(**Car().draw(0, "train", 0))
    vertices = full_mesh(body.half_grid(24, 24)).vertices
    cp = vertex_cp(body, 24, 24)
    assert cp.max() <= 1.0
    assert cp[vertices[:, 0] < 0.01].max() > 0.9
    roof = vertices[:, 2] > 0.95 * vertices[:, 2].max()
    assert cp[roof].mean() < -0.3


def test_finer_clouds_follow_the_panel_solution(monkeypatch):
    monkeypatch.setattr("halfwave.data.body_flow.PANEL_RINGS", 12)
    monkeypatch.setattr("halfwave.data.body_flow.PANEL_SEGMENTS", 16)
    body = ahmed_body(**STANDARD_AHMED)
    coarse, fine = vertex_cp(body, 12, 16), vertex_cp(body, 25, 32)
    assert fine.shape == (25 * 32 + 2,)
    np.testing.assert_allclose(fine[1:-1].reshape(25, 32)[1::2, ::2], coarse[1:-1].reshape(12, 16), atol=1e-12)


def test_ahmed_pressure_scales_with_velocity_squared():
    sample = Ahmed(points=SMALL).sample(0, "train", 0)
    velocity = sample["parameters"][list(RANGES).index("velocity")]
    rings, segments = mesh_size(SMALL)
    cp = vertex_cp(ahmed_geometry(0), rings, segments)
    np.testing.assert_allclose(sample["pressure"], 0.5 * AIR_DENSITY * velocity**2 * cp, rtol=1e-4, atol=1e-2)
    assert 10 <= velocity <= 70


def test_file_of_point_clouds(tmp_path):
    path = generate(Car(points=SMALL), tmp_path / "car.h5", n_train=3, n_test=1)
    dataset = open_point_dataset(path)
    assert (dataset.n_train, dataset.n_test) == (3, 1)
    assert "hood_height" in dataset.parameter_names
    sample, expected = dataset.train[2], Car(points=SMALL).sample(0, "train", 2)
    for name, array in expected.items():
        np.testing.assert_array_equal(getattr(sample, name).numpy(), array)
    assert len(sample.points) >= SMALL
    assert "not RANS" in dataset.metadata["solver"]


@pytest.mark.parametrize(
    ("build", "word"),
    [(lambda: Car(points=9), "points"), (lambda: Car(speed=0.0), "speed"), (lambda: Ahmed(points=1), "points")],
)
def test_bad_parameters_are_refused(build, word):
    with pytest.raises(InputError, match=word):
        build()


def test_a_mesh_needs_enough_rings():
    with pytest.raises(InputError, match="3 segments"):
        ahmed_body(**STANDARD_AHMED).half_grid(10, 3)
