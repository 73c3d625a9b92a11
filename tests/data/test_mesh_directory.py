"""Directories of meshes as the car and Ahmed data are published."""

import json
import pickle

import numpy as np
import pytest
from meshes import icosphere

from halfwave.data import ReadOptions, open_any, open_dataset, open_point_dataset
from halfwave.data.readers.ply import read_ply
from halfwave.errors import InputError


def write_ply(path, mesh, form="binary_little_endian", real="float", extra=False):
    """One mesh in one of PLY's three encodings, with normals beside the coordinates when `extra`."""
    names = ["x", "y", "z", *(("nx", "ny", "nz") if extra else ())]
    header = ["ply", f"format {form} 1.0", "comment a sphere", f"element vertex {len(mesh.vertices)}"]
    header += [f"property {real} {name}" for name in names]
    header += [f"element face {len(mesh.triangles)}", "property list uchar int vertex_indices", "end_header"]
    values = np.concatenate([mesh.vertices, mesh.vertices], axis=1)[:, : len(names)]
    if form == "ascii":
        rows = [" ".join(map(repr, map(float, row))) for row in values]
        rows += ["3 " + " ".join(map(str, row)) for row in mesh.triangles]
        path.write_text("\n".join([*header, *rows]) + "\n")
        return
    order = "<" if "little" in form else ">"
    faces = np.zeros(len(mesh.triangles), dtype=[("n", "u1"), ("v", order + "i4", 3)])
    faces["n"], faces["v"] = 3, mesh.triangles
    body = values.astype(order + {"float": "f4", "double": "f8"}[real]).tobytes() + faces.tobytes()
    path.write_bytes("\n".join([*header, ""]).encode() + body)


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("real", ["float", "double"])
def test_ply_in_every_encoding(tmp_path, form, real):
    mesh = icosphere(3)
    write_ply(tmp_path / "m.ply", mesh, form, real, extra=True)
    read = read_ply(tmp_path / "m.ply")
    np.testing.assert_allclose(read.vertices, mesh.vertices, atol=1e-6)
    np.testing.assert_array_equal(read.triangles, mesh.triangles)
    read.check_watertight()


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
def test_damaged_ply_is_refused(tmp_path, form):
    path = tmp_path / "m.ply"
    write_ply(path, icosphere(2), form)
    content = path.read_bytes()
    for part in (0.9, 0.3, 0.01):
        path.write_bytes(content[: int(part * len(content))])
        with pytest.raises(InputError, match=r"m\.ply is truncated"):
            read_ply(path)
    path.write_bytes(content.replace(b"property float z\n", b""))
    with pytest.raises(InputError, match=r"m\.ply"):
        read_ply(path)


def test_quadrangles_and_wild_indices_are_refused(tmp_path):
    path = tmp_path / "m.ply"
    write_ply(path, icosphere(1), "ascii")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], "4 0 1 2 3"]))
    with pytest.raises(InputError, match="not triangles"):
        read_ply(path)
    path.write_text("\n".join([*lines[:-1], "3 0 1 99"]))
    with pytest.raises(InputError, match="99"):
        read_ply(path)


def make_directory(root, count=6, lists=True, parameters=None, inner="data"):
    for i in range(count):
        folder = root / inner / f"{i:03d}"
        folder.mkdir(parents=True)
        mesh = icosphere(2, centre=(i, 0, 0))
        write_ply(folder / "tri_mesh.ply", mesh)
        np.save(folder / "press.npy", mesh.vertices[:, 2] + i)
        if parameters == "json":
            (folder / "parameters.json").write_text(json.dumps({"velocity": 10.0 + i, "angle": 25}))
        elif parameters == "txt":
            (folder / "info.txt").write_text(f"velocity: {10.0 + i}\nangle = 25\n")
    if lists:
        (root / "train.txt").write_text("000,001,002,\n003\n")
        (root / "test.txt").write_text("004\n005\n")
    return root


@pytest.mark.parametrize("inner", ["data", ".", "data/data"])
def test_shapenet_car_layout(tmp_path, inner):
    dataset = open_point_dataset(make_directory(tmp_path, inner=inner))
    assert (dataset.n_train, dataset.n_test, list(dataset.parameter_names)) == (4, 2, [])
    sample, mesh = dataset.test[1], icosphere(2)
    np.testing.assert_allclose(sample.points, mesh.vertices + np.array([5, 0, 0]), atol=1e-6)
    np.testing.assert_allclose(sample.pressure, mesh.vertices[:, 2] + 5, atol=1e-6)
    np.testing.assert_allclose(sample.normals, mesh.vertex_normals, atol=1e-5)
    np.testing.assert_allclose(sample.areas, mesh.vertex_areas, atol=1e-5)


def test_pressure_values_without_a_vertex_are_left_out(tmp_path):
    make_directory(tmp_path)
    press = np.arange(42 + 96, dtype=np.float64)
    np.save(tmp_path / "data/000/press.npy", press[None])
    expected = np.concatenate([press[:16], press[112:]])
    np.testing.assert_array_equal(open_point_dataset(tmp_path).train[0].pressure, expected)


@pytest.mark.parametrize("parameters", ["json", "txt"])
def test_ahmed_layout_with_parameters_and_without_lists(tmp_path, parameters):
    make_directory(tmp_path, lists=False, parameters=parameters, inner=".")
    dataset = open_point_dataset(tmp_path)
    assert (dataset.n_train, dataset.n_test) == (5, 1)
    assert list(dataset.parameter_names) == ["velocity", "angle"]
    assert dataset.test[0].parameters.tolist() == [15.0, 25.0]


def test_limits_and_thinning(tmp_path):
    dataset = open_point_dataset(make_directory(tmp_path), ReadOptions(n_train=3, n_test=1, stride=2))
    assert (dataset.n_train, dataset.n_test) == (3, 1)
    sample = dataset.train[0]
    assert len(sample.points) == len(sample.pressure) == 21
    assert sample.areas.sum() == pytest.approx(icosphere(2).areas.sum(), rel=0.1)
    with pytest.raises(InputError, match="point clouds"):
        open_any(tmp_path, ReadOptions(resolution=8))
    with pytest.raises(InputError, match="point clouds"):
        open_dataset(tmp_path)


def damage(kind, root):
    folder = root / "data" / "000"
    press = folder / "press.npy"
    if kind == "truncated":
        press.write_bytes(press.read_bytes()[:-50])
    elif kind == "object":
        np.save(press, np.array([{}, None], dtype=object))
    elif kind == "pickle":
        press.write_bytes(pickle.dumps([1, 2]))
    elif kind == "text":
        np.save(press, np.array(["a"] * 42))
    elif kind == "count":
        np.save(press, np.ones(7))
    elif kind == "rank":
        np.save(press, np.ones((42, 3)))
    elif kind == "nan":
        np.save(press, np.full(42, np.nan))
    elif kind == "no-mesh":
        (folder / "tri_mesh.ply").unlink()
    elif kind == "bad-mesh":
        (folder / "tri_mesh.ply").write_bytes(b"ply\n")
    elif kind == "empty-mesh":
        (folder / "tri_mesh.ply").write_bytes(b"")
    elif kind == "listed-but-missing":
        (root / "train.txt").write_text("000,077")
    elif kind == "parameters":
        (folder / "parameters.json").write_text('{"velocity": [1, 2]}')
    elif kind == "parameter-lines":
        (folder / "info.txt").write_text("no name here")


EXPECTED = {
    "truncated": "press.npy is truncated",
    "object": "press.npy is truncated, an object array",
    "pickle": "press.npy is truncated, an object array or not",
    "text": "real numbers",
    "count": "one a vertex",
    "rank": "one a vertex",
    "nan": "train/pressure holds NaN or infinity in sample 0",
    "no-mesh": "has 0 .ply files",
    "bad-mesh": "not a PLY mesh",
    "empty-mesh": "is empty",
    "listed-but-missing": "lists '077'",
    "parameters": "named numbers",
    "parameter-lines": "named numbers",
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_damage_is_refused(tmp_path, kind):
    damage(kind, make_directory(tmp_path))
    with pytest.raises(InputError) as caught:
        _ = open_point_dataset(tmp_path).train[0]
    assert EXPECTED[kind] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_inconsistent_parameters_and_too_few_samples_are_refused(tmp_path):
    make_directory(tmp_path, parameters="json", lists=False)
    (tmp_path / "data/001/parameters.json").write_text('{"speed": 1}')
    with pytest.raises(InputError, match="the first sample has"):
        _ = open_point_dataset(tmp_path).train[1]
    with pytest.raises(InputError, match="6 samples"):
        open_point_dataset(tmp_path, ReadOptions(n_test=6))
