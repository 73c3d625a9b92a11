"""Which axis of an array holds its channels: told by the user, by the model, by the other array, or asked for.

An array of samples is N x grid, N x C x grid or N x grid x C. What shapes leave open is not guessed: an axis of ten
entries beside axes of 64 may be ten channels or ten points, and a model trained on the wrong one runs all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from halfwave.data.arrays import ArrayPair, ChannelsFirst, LazyArray, WithChannel
from halfwave.errors import InputError

ChannelAxis = Literal["none"] | int
"""What a user may say: 1 (after the samples), -1 (last), or that there is none."""
_FEWEST_POINTS = 8
"""An axis of fewer entries is no grid axis."""
_MOST_CHANNELS = 32
"""An axis of more entries is no channel axis."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ChannelRule:
    """What is known beforehand: the axis that the user names, and how many grid axes the model takes."""

    axis: ChannelAxis | None = None
    grid_axes: int | None = None

    def __post_init__(self) -> None:
        if self.axis not in (None, "none", 1, -1):
            raise InputError(f"channel_axis is {self.axis!r}; accepted: 1 (after the samples), -1 (last), none")

    def pair(self, x: LazyArray, y: LazyArray, where: str) -> ArrayPair:
        """Inputs and outputs as N x C x grid; InputError, a question, where shapes leave it open."""
        first, second = self.axes(x.shape, y.shape, where)
        return ArrayPair(_channels_first(x, first), _channels_first(y, second))

    def axes(self, x: Shape, y: Shape, where: str) -> tuple[ChannelAxis, ChannelAxis]:
        """The channel axis of each of the two shapes, samples included."""
        if not 2 <= min(len(x), len(y)) <= max(len(x), len(y)) <= 5:
            return 1, 1  # refused with its shape by whoever checks the pair
        if self.axis is not None:
            return _as_told(self.axis, x, y), _as_told(self.axis, y, x)
        if self.grid_axes is not None and {len(x), len(y)} <= {self.grid_axes + 1, self.grid_axes + 2}:
            return self._as_the_model(x), self._as_the_model(y)
        if len(x) != len(y):
            return _by_the_other(x, y, where), _by_the_other(y, x, where)
        both = _by_difference(x[1:], y[1:]) or _by_size(x, where)
        return both, both

    def _as_the_model(self, shape: Shape) -> ChannelAxis:
        if len(shape) - 1 == self.grid_axes:
            return "none"
        return -1 if shape[1] > _MOST_CHANNELS >= shape[-1] else 1


def _as_told(axis: ChannelAxis, shape: Shape, other: Shape) -> ChannelAxis:
    """The user's word; of two arrays with one axis between them it is about the longer one."""
    return "none" if len(shape) < len(other) else axis


def _by_the_other(shape: Shape, other: Shape, where: str) -> ChannelAxis:
    """One array has an axis more: that is its channels, and the other shows the grid."""
    if len(shape) < len(other):
        return "none"
    fits: list[ChannelAxis] = [
        axis for axis, rest in ((1, shape[2:]), (-1, shape[1:-1])) if len(shape) == len(other) + 1 and rest == other[1:]
    ]
    if len(fits) == 2:
        raise _question(shape, where, "its second and its last axis both may be channels", fits)
    return fits[0] if fits else 1


def _by_difference(x: Shape, y: Shape) -> ChannelAxis | None:
    """Grids agree, numbers of channels need not: where only one axis differs, it is that of the channels."""
    if len(x) < 2 or x == y:
        return None
    if x[1:] == y[1:]:
        return 1
    return -1 if x[:-1] == y[:-1] else None


def _by_size(shape: Shape, where: str) -> ChannelAxis:
    sizes = shape[1:]
    if len(sizes) == 1:
        return "none"
    short: list[ChannelAxis] = [axis for axis, at in ((1, 0), (-1, -1)) if sizes[at] < _FEWEST_POINTS]
    if len(short) == 1:
        return short[0]
    if len(short) == 2 and len(set(sizes)) > 1:
        raise _question(shape, where, "its second and its last axis are both too short for a grid", short)
    readings: list[tuple[ChannelAxis, Shape]] = [(1, sizes[1:]), (-1, sizes[:-1])]
    few = [axis for axis, grid in readings if _may_be_channels(sizes, grid)]
    if len(sizes) > 3:
        if len(few) == 1:
            return few[0]
        raise _question(shape, where, "a grid has at most 3 axes", [1, -1])
    if few:
        raise _question(shape, where, "channels or points", [*few, "none"])
    return "none"


def _may_be_channels(sizes: Shape, grid: Shape) -> bool:
    """Few, and on a grid with at least twice as many points along each axis: 16 x 16 is a grid, not 16 channels."""
    channels = math.prod(sizes) // math.prod(grid)
    return channels <= _MOST_CHANNELS and 2 * channels <= min(grid)


def _question(shape: Shape, where: str, why: str, choices: list[ChannelAxis]) -> InputError:
    sizes = " x ".join(map(str, shape))
    accepted = ", ".join(f"--channel-axis {choice}" for choice in choices)
    return InputError(f"{where}: shape {sizes} can be read in several ways ({why}); say which: {accepted}")


def _channels_first(array: LazyArray, axis: ChannelAxis) -> LazyArray:
    if axis == "none":
        return WithChannel(array)
    return ChannelsFirst(array, 1) if axis == -1 and len(array.shape) > 2 else array
