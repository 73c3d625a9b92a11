"""The elements of a version 5 MATLAB file, looked at before scipy reads them.

A file is a header of 128 bytes and elements: type, length, content. An element that is a variable holds elements in
turn: flags (class, complex or not), sizes, name, numbers. scipy takes the type of the numbers as an index into a table
without asking whether it is in it, and dies where it is not: so the type is read here first.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from halfwave.errors import InputError

Order = Literal["little", "big"]
Element = tuple[int, int, int]
"""Its type, where its content begins, and the length of that."""
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13))
"""Types of elements that hold numbers: integers of 8 to 32 bits, single, double, integers of 64 bits."""
_NUMERIC_CLASSES = range(6, 16)
_COMPLEX = 1 << 11
_MOST_VARIABLES = 10_000
_HEAD = 4096
"""Bytes of a variable that are looked at: names have at most 63 characters, arrays at most 64 axes."""


def find_elements(path: Path) -> tuple[Order, list[Element]]:
    """The order of bytes and all elements; InputError where they do not end with the file."""
    size, at, found = path.stat().st_size, 128, []
    with open(path, "rb") as file:
        order: Order = "little" if file.read(128)[126:] == b"IM" else "big"
        for _ in range(_MOST_VARIABLES):
            if at >= size:
                break
            file.seek(at)
            kind, length = (int.from_bytes(file.read(4), order) for _ in range(2))
            found.append((kind, at + 8, length))
            at += 8 + length
    if at != size:
        raise InputError(f"{path} is truncated, or has more than {_MOST_VARIABLES} variables")
    return order, found


def check_numbers(path: Path, keys: Collection[str]) -> None:
    """InputError where a variable of these names is there twice, or is not stored as real numbers."""
    order, found = find_elements(path)
    seen = set()
    with open(path, "rb") as file:
        for kind, begins, length in found:
            if kind not in (_MATRIX, _COMPRESSED):
                continue
            file.seek(begins)
            variable = _Head(path, _unpacked(path, file.read(min(length, _HEAD)), kind), order).variable()
            if variable is None or variable.name not in keys:
                continue
            if variable.name in seen:
                raise InputError(f"{path} has two variables '{variable.name}'")
            seen.add(variable.name)
            variable.check(path)


def _unpacked(path: Path, content: bytes, kind: int) -> bytes:
    """The first bytes of a variable; a packed one is an element in itself."""
    if kind == _MATRIX:
        return content
    try:
        return zlib.decompressobj().decompress(content, _HEAD)[8:]
    except zlib.error as error:
        raise InputError(f"{path} is damaged: a variable cannot be unpacked ({error})") from None


@dataclass(frozen=True)
class _Variable:
    name: str
    is_complex: bool
    stored: int

    def check(self, path: Path) -> None:
        if self.is_complex:
            raise InputError(f"{path}: '{self.name}' is complex; real numbers are expected")
        if self.stored not in _NUMBERS:
            raise InputError(f"{path}: '{self.name}' is stored as elements of type {self.stored}, which are no numbers")


class _Head:
    """Elements within a variable: short ones hold their length, type and at most 4 bytes in 8, all end at an eighth."""

    def __init__(self, path: Path, content: bytes, order: Order) -> None:
        self.path, self.content, self.order, self.at = path, content, order, 16

    def variable(self) -> _Variable | None:
        """None where this is no array of numbers."""
        flags = self._number(8)
        if flags & 0xFF not in _NUMERIC_CLASSES:
            return None
        self._element()
        name = self._element().decode("latin1")
        return _Variable(name, bool(flags & _COMPLEX), self._tag()[0])

    def _number(self, at: int) -> int:
        if at + 4 > len(self.content):
            raise InputError(f"{self.path} is damaged: a variable has no numbers")
        return int.from_bytes(self.content[at : at + 4], self.order)

    def _tag(self) -> tuple[int, int, int]:
        """Type, length, and where the content begins."""
        kind = self._number(self.at)
        if kind >> 16:
            return kind & 0xFFFF, min(4, kind >> 16), self.at + 4
        return kind, self._number(self.at + 4), self.at + 8

    def _element(self) -> bytes:
        _, length, begins = self._tag()
        self.at = begins + length + -(begins + length) % 8
        return self.content[begins : begins + length]
