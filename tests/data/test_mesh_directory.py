"""Directories of meshes as the car and Ahmed data are published."""

import json
import pickle
import struct

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


LETTERS = {"char": "b", "uchar": "B", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d"}
FORMS = ["ascii", "binary_little_endian", "binary_big_endian"]


def write_elements(path, form, elements):
    """Any PLY file: elements as (name, properties as they are declared, rows with a tuple for each list)."""
    order = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}[form]
    header, body = ["ply", f"format {form} 1.0"], b""
    for name, properties, rows in elements:
        header += [f"element {name} {len(rows)}", *(f"property {declared}" for declared in properties)]
        for row in rows:
            numbers = []
            for declared, value in zip(properties, row, strict=True):
                kind, *types = declared.split()
                numbers += (
                    [(types[0], len(value)), *((types[1], v) for v in value)] if kind == "list" else [(kind, value)]
                )
            if order:
                body += b"".join(struct.pack(order + LETTERS[kind], number) for kind, number in numbers)
            else:
                body += " ".join(repr(number) for _, number in numbers).encode() + b"\n"
    path.write_bytes("\n".join([*header, "end_header", ""]).encode() + body)


SQUARE = [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.5), (0.0, 1.0, 0.5)]
HALVES = [(0, 1, 2), (0, 2, 3)]
VERTICES = ("vertex", ["double x", "double y", "double z"], SQUARE)
CORNERS = "list uchar int vertex_indices"
LAYOUTS = {
    "colour before the list": [VERTICES, ("face", ["uchar red", CORNERS], [(200, HALVES[0]), (3, HALVES[1])])],
    "numbers around it": [
        VERTICES, ("face", ["float a", CORNERS, "int b"], [(0.5 * i, t, 3) for i, t in enumerate(HALVES)]),
    ],
    "another list before it": [
        VERTICES,
        ("face", ["list uchar float texcoord", CORNERS], [((0.0,) * (4 * i), t) for i, t in enumerate(HALVES)]),
    ],
    "another list after it": [
        VERTICES, ("face", [CORNERS, "list ushort char bits"], [(t, (3, 1, 2)) for t in HALVES]),
    ],
    "the other name, other types": [VERTICES, ("face", ["list int uint vertex_index"], [(t,) for t in HALVES])],
    "coordinates in another order": [
        ("vertex", ["uchar red", "float z", "list uchar int near", "double x", "double y"],
         [(7, z, (1,) * i, x, y) for i, (x, y, z) in enumerate(SQUARE)]),
        ("face", [CORNERS], [(t,) for t in HALVES]),
    ],
    "faces first, and other elements": [
        ("camera", ["float f"], [(1.5,)]), ("face", [CORNERS], [(t,) for t in HALVES]),
        ("strip", ["list int int vertex_indices"], [((0, 1, 2, 3, 1),)]), VERTICES,
        ("edge", ["int vertex1", "int vertex2"], [(0, 1), (1, 2)]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_else_a_ply_holds(tmp_path, layout, form):
    write_elements(tmp_path / "m.ply", form, LAYOUTS[layout])
    read = read_ply(tmp_path / "m.ply")
    np.testing.assert_array_equal(read.vertices, SQUARE)
    np.testing.assert_array_equal(read.triangles, HALVES)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("faces", "message"),
    [
        (("face", [CORNERS], [((0, 1, 2, 3),)]), "not triangles|not a PLY mesh of triangles"),
        (("face", ["uchar red", CORNERS], [(1, (0, 1, 2)), (1, (0, 1))]), "not triangles|not a PLY mesh of triangles"),
        (("face", ["list uchar float vertex_indices"], [((0, 1, 2),)]), "by float32 numbers; whole numbers"),
        (("face", ["list uchar int corners"], [((0, 1, 2),)]), "no list vertex_indices or vertex_index"),
        (("face", ["int vertex_indices"], [(0,)]), "no list vertex_indices or vertex_index"),
        (("tristrips", ["list int int vertex_indices"], [((0, 1, 2),)]), "there are: vertex, tristrips"),
        (("face", [CORNERS], []), "are expected"),
        (("face", ["uchar red", CORNERS], [(1, (0, 1, 4))]), "vertices 0 .. 4; there are 4"),
    ],
)
def test_other_faces_are_refused(tmp_path, form, faces, message):
    write_elements(tmp_path / "m.ply", form, [VERTICES, faces])
    with pytest.raises(InputError, match=message) as caught:
        read_ply(tmp_path / "m.ply")
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("m.ply") == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_header_with_more_rows_than_bytes_is_refused(tmp_path, form):
    path = tmp_path / "m.ply"
    write_elements(path, form, LAYOUTS["colour before the list"])
    path.write_bytes(path.read_bytes().replace(b"element face 2", b"element face 2000000000000"))
    with pytest.raises(InputError, match=r"m\.ply is truncated .*2000000000000 rows in \d+ bytes"):
        read_ply(path)


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
