"""Pieces: which points of a grid a process has.

Along a sharded axis of N points process r of P has those that `torch.tensor_split` gives it, N // P or one more; around
them domain padding adds its zeros to the first and the last piece. Any other contiguous pieces serve as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from halfwave.parallel.ranks import Ranks
from halfwave.parallel.wire import record


@dataclass(frozen=True)
class Span:
    """The points start .. stop-1 of an axis of `size` points."""

    start: int
    stop: int
    size: int

    @property
    def points(self) -> int:
        return self.stop - self.start

    def padded(self, before: int, after: int) -> Span:
        """Its place when an axis gets more points at its ends, which belong to the outermost spans."""
        start = 0 if self.start == 0 else self.start + before
        stop = self.stop + before + (after if self.stop == self.size else 0)
        return Span(start, stop, self.size + before + after)


@dataclass(frozen=True)
class Piece:
    """A span of each axis of a grid."""

    spans: tuple[Span, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        """Points of the piece along each axis."""
        return tuple(span.points for span in self.spans)

    @property
    def whole(self) -> tuple[int, ...]:
        """Points of the grid along each axis."""
        return tuple(span.size for span in self.spans)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        return tuple((span.start, span.stop) for span in self.spans)

    def cut(self, field: Tensor) -> Tensor:
        """What belongs to the piece of a tensor whose last axes are the grid's, or of length 1: a view."""
        first = field.ndim - len(self.spans)
        for axis, span in enumerate(self.spans, start=first):
            if field.shape[axis] != 1 or span.size == 1:
                field = field.narrow(axis, span.start, span.points)
        return field


def split_sizes(size: int, parts: int) -> list[int]:
    """Lengths of the parts that `torch.tensor_split` makes of `size` points."""
    least, more = divmod(size, parts)
    return [least + (part < more) for part in range(parts)]


def split_span(size: int, parts: int, number: int) -> Span:
    """Part `number` of them."""
    sizes = split_sizes(size, parts)
    start = sum(sizes[:number])
    return Span(start, start + sizes[number], size)


@dataclass(frozen=True)
class GridLayout:
    """Axis axes[i] of the grid over dimension i of a mesh of processes of this `shape`, this one at `coordinate`.

    `known` is the whole grid of a plan; None asks the other processes how much they have, at each call.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    coordinate: tuple[int, ...]
    ranks: Ranks = field(repr=False)
    known: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.shape):
            raise ValueError(
                f"axes {self.axes} over a mesh of {len(self.shape)} dimensions: expected one axis for each dimension "
                "(of a mesh with data too, give its part: mesh['grid'])"
            )
        if len(set(self.axes)) != len(self.axes) or any(type(axis) is not int or axis < 0 for axis in self.axes):
            raise ValueError(f"axes must be different grid axes, counted from 0, got {self.axes}")

    @classmethod
    def of(cls, mesh: DeviceMesh, axes: Sequence[int]) -> GridLayout:
        """That of this process in a mesh."""
        coordinate = mesh.get_coordinate()
        if coordinate is None:
            raise ValueError(f"this process is not part of the mesh {mesh}")
        return cls(tuple(mesh.shape), tuple(axes), tuple(coordinate), Ranks.of(mesh))

    @classmethod
    def planned(cls, shape: tuple[int, ...], axes: Sequence[int], grid: tuple[int, ...], rank: int = 0) -> GridLayout:
        """That of one of processes which do not exist, for a plan on `meta`."""
        coordinate = tuple(int(i) for i in torch.unravel_index(torch.tensor(rank), shape)) if shape else ()
        return cls(shape, tuple(axes), coordinate, Ranks(prod(shape), rank), grid)

    def piece_of(self, grid: tuple[int, ...]) -> Piece:
        """This process's piece of a whole grid, as `torch.tensor_split` gives it."""
        self._check_axes(len(grid))
        spans = [Span(0, size, size) for size in grid]
        for axis, parts, number in zip(self.axes, self.shape, self.coordinate, strict=True):
            if parts > grid[axis]:
                raise ValueError(f"axis {axis} has {grid[axis]} points, too few for {parts} processes")
            spans[axis] = split_span(grid[axis], parts, number)
        return Piece(tuple(spans))

    def locate(self, grid: tuple[int, ...], device: torch.device) -> Piece:
        """The piece of a process that holds `grid` points along each axis. All processes call this together."""
        self._check_axes(len(grid))
        if self.known is not None:
            record("grid", (self.ranks.size - 1) * 8 * len(grid))
            return self.piece_of(self.known)
        own = torch.tensor([grid], dtype=torch.int64, device=device)
        counts = [1] * self.ranks.size
        sizes = self.ranks.collect(own, counts, "grid").reshape(*self.shape, len(grid)).tolist()
        return Piece(tuple(self._span(sizes, grid, axis) for axis in range(len(grid))))

    def _span(self, sizes: Any, grid: tuple[int, ...], axis: int) -> Span:
        """Of this axis, from what the processes in line with this one have of it."""
        if axis not in self.axes:
            return Span(0, grid[axis], grid[axis])
        dimension = self.axes.index(axis)
        in_line = [_at(sizes, _replaced(self.coordinate, dimension, n))[axis] for n in range(self.shape[dimension])]
        start = sum(in_line[: self.coordinate[dimension]])
        return Span(start, start + grid[axis], sum(in_line))

    def _check_axes(self, dim: int) -> None:
        if any(axis >= dim for axis in self.axes):
            raise ValueError(f"axes {self.axes} of a grid with {dim} axes: expected axes below {dim}")


def _replaced(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _at(nested: Any, index: tuple[int, ...]) -> list[int]:
    for i in index:
        nested = nested[i]
    return nested


@dataclass
class Place:
    """Where a model computes at the moment: the piece of the field that its layers hold."""

    layout: GridLayout
    _field: Piece | None = None
    _padded: Piece | None = None

    def enter(self, grid: tuple[int, ...], device: torch.device) -> None:
        """A field comes, of which this process has `grid` points along each axis."""
        self._field = self._padded = self.layout.locate(grid, device)

    @property
    def field_piece(self) -> Piece:
        """The piece of the model's input and answer."""
        if self._field is None:
            raise ValueError("a layer of a parallel model was called outside of it: call the model")
        return self._field

    @property
    def piece(self) -> Piece:
        """The piece that layers have now: with what padding has added to it."""
        return self._padded or self.field_piece

    @piece.setter
    def piece(self, piece: Piece) -> None:
        self._padded = piece
