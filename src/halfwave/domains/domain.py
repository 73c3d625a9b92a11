"""Domain: where a field lives, and all that follows from it. Declared once, with the data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from halfwave.errors import InputError


class Domain(ABC):
    """The place of a field's points: how far apart they are, what is between them, how much each one counts.

    Fields are (B, C, *grid). A domain knows no resolution: the same one serves every grid of its kind, so that data,
    losses and evaluation on several grids share it. Equal domains are equal objects; `to_dict` is JSON.
    """

    kind: ClassVar[str]
    """What `domain_from_dict` finds it by."""
    plot: ClassVar[Literal["plane", "map", "points"]]
    """Which picture shows its fields: axes as they are, a map with north up, or points in space."""
    transform: ClassVar[Literal["fourier", "harmonics"] | None]
    """The transform whose waves are the domain's own; None without a grid."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the user writes (`--domain NAME`), without lengths."""

    @property
    @abstractmethod
    def axes(self) -> tuple[str, ...]:
        """Names of the grid's axes; none without a grid."""

    @property
    @abstractmethod
    def periodic(self) -> tuple[bool, ...]:
        """Of each axis, whether its end is its beginning. A model needs no padding along such an axis."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    @abstractmethod
    def grid(self, resolution: int) -> tuple[int, ...]:
        """The grid that `resolution` points a side mean."""

    @abstractmethod
    def resample(self, fields: Tensor, grid: tuple[int, ...]) -> Tensor:
        """Values (B, C, *grid) at the points of another grid: those of the field where both have a point, which also
        keeps two-valued coefficients two-valued; interpolated elsewhere. Nothing is filtered: a coarser grid has the
        values of the same function, as a solver that keeps every k-th point has them."""

    @abstractmethod
    def every(self, step: int, grid: tuple[int, ...]) -> Domain:
        """The domain of every `step`-th point of a grid, from the first on; InputError where they are no such grid."""

    @abstractmethod
    def gradient(self, fields: Tensor) -> tuple[Tensor, ...]:
        """Orthonormal components of the gradient: |∇u|^2 is the sum of their squares."""

    @abstractmethod
    def weights(self, grid: tuple[int, ...]) -> Tensor | None:
        """How much a point counts in an integral, up to a factor, broadcast against the grid; None: all alike."""

    @property
    def has_grid(self) -> bool:
        return bool(self.axes)

    def check_grid(self, grid: Sequence[int]) -> None:
        """InputError unless a grid has as many axes as this domain."""
        if len(grid) != len(self.axes):
            size = "x".join(map(str, grid)) or "no points"
            raise InputError(f"a domain {self} has {len(self.axes)} axes; it was given a grid of {size}")


@dataclass(frozen=True)
class Sided(Domain):
    """A domain with 1 to 3 straight axes x, y, z of given lengths, on whose grids all points count alike."""

    lengths: tuple[float, ...]

    plot: ClassVar[Literal["plane", "map", "points"]] = "plane"
    transform: ClassVar[Literal["fourier", "harmonics"] | None] = "fourier"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", _checked(self.lengths))

    @property
    def axes(self) -> tuple[str, ...]:
        return ("x", "y", "z")[: len(self.lengths)]

    def grid(self, resolution: int) -> tuple[int, ...]:
        return (resolution,) * len(self.lengths)

    def weights(self, grid: tuple[int, ...]) -> None:
        self.check_grid(grid)

    def __str__(self) -> str:
        return f"{self.name} {' x '.join(f'{side:.4g}' for side in self.lengths)}"


def _checked(lengths: Sequence[float]) -> tuple[float, ...]:
    try:
        sides = tuple(float(side) for side in lengths)
    except (TypeError, ValueError):
        raise InputError(f"lengths are {lengths!r}; 1 to 3 positive numbers are expected") from None
    if not 1 <= len(sides) <= 3 or not all(side > 0 and math.isfinite(side) for side in sides):
        raise InputError(f"lengths are {list(sides)}; 1 to 3 positive numbers are expected")
    return sides
