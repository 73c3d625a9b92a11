"""A frequency on a grid: the integers of the problem, and the angles that the theorems are written in.

Frequency w in Z^d, grid of m_k points along axis k (points j/m_k, j = 0..m_k-1, of the unit cube),
t_k = w_k/m_k and x_k = pi t_k. An axis is aliased where w_k is a non-zero multiple of m_k: its Fourier mode equals 1
on every grid point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

from halfwave.errors import InputError
from halfwave.theory.bound import is_several

Integers = int | Sequence[int]


@dataclass(frozen=True)
class Axis:
    """One axis of a grid with one component of the frequency."""

    frequency: int
    side: int

    @property
    def t(self) -> float:
        return self.frequency / self.side

    @property
    def x(self) -> float:
        return math.pi * self.t

    @property
    def resonant(self) -> bool:
        """w_k = 0 mod m_k: the mode is 1 on every grid point (w_k = 0 included)."""
        return self.frequency % self.side == 0

    @property
    def aliased(self) -> bool:
        """0 != w_k = 0 mod m_k: the grid cannot tell the mode from the constant."""
        return self.frequency != 0 and self.resonant

    @property
    def reduced_x(self) -> float:
        """x_k less the nearest multiple of pi, in exact integer arithmetic first: |.| <= pi/2."""
        remainder = self.frequency % self.side
        if 2 * remainder > self.side:
            remainder -= self.side
        return math.pi * remainder / self.side


@dataclass(frozen=True)
class Lattice:
    """The axes of a problem. `dimension` d, `points` n = m_1 ... m_d."""

    axes: tuple[Axis, ...]

    @property
    def dimension(self) -> int:
        return len(self.axes)

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(axis.side for axis in self.axes)

    @property
    def points(self) -> int:
        return math.prod(self.sides)

    @property
    def zero(self) -> bool:
        """w = 0."""
        return all(axis.frequency == 0 for axis in self.axes)

    @property
    def resonant(self) -> bool:
        """w = 0 mod m in every component: a constant is not orthogonal to the mode on the grid."""
        return all(axis.resonant for axis in self.axes)

    @property
    def cubic(self) -> bool:
        return len(set(self.sides)) == 1


def read_lattice(frequency: Integers, grid: Integers) -> Lattice:
    """Pair a frequency with a grid.

    `frequency`: an int (one axis) or one int for each axis. `grid`: an int means that many points along every axis
    of the frequency; a sequence gives the points of each axis.
    """
    components = _integers("frequency", frequency)
    sides = _integers("grid", grid)
    if not is_several(grid):
        sides = sides * len(components)
    if len(sides) != len(components):
        raise InputError(
            f"frequency {components} has {len(components)} components, grid {sides} has {len(sides)} axes: "
            "expected as many of one as of the other"
        )
    _require_positive(sides)
    return Lattice(tuple(Axis(w, m) for w, m in zip(components, sides, strict=True)))


def read_grid(grid: Integers) -> tuple[int, ...]:
    """The sides of a grid; an int is one axis."""
    sides = _integers("grid", grid)
    _require_positive(sides)
    return sides


def require_powers_of_two(sides: Sequence[int], what: str) -> None:
    if any(side & (side - 1) for side in sides):
        raise InputError(f"{what} needs grid sides that are powers of two, got {tuple(sides)}")


def _require_positive(sides: Sequence[int]) -> None:
    if not sides or min(sides) < 1:
        raise InputError(f"grid must have at least one point along each axis, got {tuple(sides)}")


def _integers(name: str, value: Integers) -> tuple[int, ...]:
    items: list[object] = list(value) if is_several(value) else [value]  # type: ignore[arg-type]
    try:
        # `index` takes numpy and torch integers and refuses floats; bool is an int that nobody means as a number.
        numbers = tuple(index(item) for item in items)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} must be an integer or a sequence of integers, got {value!r}") from None
    if any(isinstance(item, bool) for item in items):
        raise InputError(f"{name} must be an integer or a sequence of integers, got {value!r}")
    return numbers
