"""Triangle meshes in PLY files, ASCII or binary: read by plyfile, checked here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from plyfile import PlyData, PlyElement, PlyListProperty

from halfwave.data.refusals import require_file
from halfwave.data.surfaces import TriangleMesh
from halfwave.errors import InputError

_CORNERS = ("vertex_indices", "vertex_index")
"""What programs call the list of a face's vertices."""


def read_ply(path: Path) -> TriangleMesh:
    """Vertices and triangles, whatever else the file holds; InputError for other faces and for damaged files."""
    require_file(path)
    try:
        _check_counts(path)
        # Triangles without further lists are read in one piece, all else row by row.
        ply = PlyData.read(path, known_list_len={"face": dict.fromkeys(_CORNERS, 3)})
        vertices = np.stack([_element(ply, "vertex")[axis] for axis in "xyz"], axis=1).astype(np.float64)
        return TriangleMesh(vertices, _triangles(_element(ply, "face")))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # plyfile and NumPy report damage in many ways
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is truncated or not a PLY mesh of triangles: {reason}") from error


def _check_counts(path: Path) -> None:
    """A row takes a byte at least for each of its properties: a header must not make plyfile take memory for more."""
    size, rows, properties = path.stat().st_size, 0, 0
    with open(path, "rb") as file:
        header = file.read(1 << 16).partition(b"end_header")[0]
    for words in map(bytes.split, header.splitlines()):
        if words[:1] == [b"element"]:
            rows, properties = int(words[2]), 0
        elif words[:1] == [b"property"]:
            properties += 1
        if rows * max(1, properties) > size:
            raise ValueError(f"{rows} rows in {size} bytes")


def _element(ply: PlyData, name: str) -> PlyElement:
    if name not in ply:
        found = ", ".join(element.name for element in ply) or "none"
        raise InputError(f"a mesh needs the elements vertex and face; there are: {found}")
    return ply[name]


def _triangles(faces: PlyElement) -> np.ndarray:
    """(F, 3) numbers of vertices."""
    name = next((p.name for p in faces.properties if p.name in _CORNERS and isinstance(p, PlyListProperty)), None)
    if name is None:
        raise InputError(f"faces have no list {' or '.join(_CORNERS)}")
    triangles = faces[name]
    if triangles.ndim == 1:  # a list of its own for each face
        if any(len(corners) != 3 for corners in triangles):
            raise InputError("there are faces that are not triangles")
        triangles = np.array([*triangles]).reshape(-1, 3)
    if triangles.dtype.kind not in "iu" and len(triangles):
        raise InputError(f"faces refer to vertices by {triangles.dtype.name} numbers; whole numbers are expected")
    return triangles.astype(np.int64)
