"""Triangle meshes in PLY files, ASCII or binary."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from halfwave.data.arrays import require_file
from halfwave.data.surfaces import TriangleMesh
from halfwave.errors import InputError

_TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass
class _Element:
    """`count` rows of named values; a list property has the type of its length as well."""

    name: str
    count: int
    properties: list[tuple[str, str]] = field(default_factory=list)
    list_type: tuple[str, str] | None = None

    def row(self, order: str) -> np.dtype:
        """One row in a binary file; a face is taken for a triangle, its only list property first."""
        listed = (
            [("length", order + self.list_type[0]), ("list", order + self.list_type[1], 3)] if self.list_type else []
        )
        return np.dtype([*listed, *((name, order + kind) for name, kind in self.properties)])


def read_ply(path: Path) -> TriangleMesh:
    """Vertices and triangles; InputError for other faces, missing coordinates and damaged files."""
    require_file(path)
    content = path.read_bytes()
    try:
        order, elements, start = _read_header(content)
        tables = (
            _read_ascii(content[start:], elements) if order == "" else _read_binary(content[start:], elements, order)
        )
        vertices = np.stack([tables["vertex"][axis] for axis in "xyz"], axis=1).astype(np.float64)
        if (tables["face"]["length"] != 3).any():
            raise InputError(f"{path} has faces that are not triangles")
        return TriangleMesh(vertices, tables["face"]["list"].astype(np.int64))
    except InputError as error:
        raise InputError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from error
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is truncated or not a PLY mesh of triangles") from error


def _read_header(content: bytes) -> tuple[str, list[_Element], int]:
    start = content.index(b"end_header")
    start = content.index(b"\n", start) + 1
    lines = [line.split() for line in content[:start].decode("ascii").splitlines()]
    if lines[0] != ["ply"]:
        raise ValueError("no PLY header")
    order, elements = "", []
    for words in lines:
        if words[:1] == ["format"]:
            order = _ORDERS[words[1]]
        elif words[:1] == ["element"]:
            elements.append(_Element(words[1], int(words[2])))
        elif words[:2] == ["property", "list"]:
            elements[-1].list_type = (_TYPES[words[2]], _TYPES[words[3]])
        elif words[:1] == ["property"]:
            elements[-1].properties.append((words[2], _TYPES[words[1]]))
    return order, elements, start


def _read_binary(body: bytes, elements: list[_Element], order: str) -> dict[str, np.ndarray]:
    tables, offset = {}, 0
    for element in elements:
        row = element.row(order)
        tables[element.name] = np.frombuffer(body, dtype=row, count=element.count, offset=offset)
        offset += element.count * row.itemsize
    return tables


def _read_ascii(body: bytes, elements: list[_Element]) -> dict[str, np.ndarray]:
    lines = body.decode("ascii").splitlines()
    tables = {}
    for element in elements:
        rows, lines = lines[: element.count], lines[element.count :]
        if len(rows) != element.count:
            raise ValueError("too few lines")
        table = np.zeros(element.count, dtype=element.row("<"))
        for number, words in enumerate(line.split() for line in rows):
            table[number] = _parse(words, element)
        tables[element.name] = table
    return tables


def _parse(words: list[str], element: _Element) -> tuple:
    if element.list_type is None:
        return tuple(float(word) for word in words[: len(element.properties)])
    length = int(words[0])
    corners = tuple(int(word) for word in words[1:4]) if length == 3 else (0, 0, 0)
    return (length, corners, *(float(word) for word in words[1 + length : 1 + length + len(element.properties)]))
