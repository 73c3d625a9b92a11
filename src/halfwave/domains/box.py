"""Box: a bounded domain, with points on its boundary or at the centres of its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor

from halfwave.domains.derivatives import difference
from halfwave.domains.domain import Sided
from halfwave.errors import InputError

Points = Literal["nodes", "cells"]


@final
@dataclass(frozen=True)
class Box(Sided):
    """[0, L_1] x .. x [0, L_d], d = 1, 2 or 3.

    Of n points along an axis, point j lies at j L / (n - 1) (``"nodes"``, both ends included) or at (j + 1/2) L / n
    (``"cells"``). Between points a field is linear; the outer half cells continue the slope of the outermost points.
    Derivatives are second-order differences. All points count alike, as in published figures, also on the boundary.
    """

    points: Points = "nodes"

    kind: ClassVar[str] = "box"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points not in ("nodes", "cells"):
            raise InputError(f"points is {self.points!r}; accepted: nodes, cells")

    @property
    def name(self) -> str:
        return "box" if self.points == "nodes" else "box-cells"

    @property
    def periodic(self) -> tuple[bool, ...]:
        return (False,) * len(self.lengths)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lengths": list(self.lengths), "points": self.points}

    def resample(self, fields: Tensor, grid: tuple[int, ...]) -> Tensor:
        for sizes in (fields.shape[2:], grid):
            self._check(sizes)
        for dim, size in enumerate(grid, start=2):
            if size != fields.shape[dim]:
                fields = self._interpolate(fields, dim, size)
        return fields

    def every(self, step: int, grid: tuple[int, ...]) -> Box:
        """Again a box: on nodes one that ends at the last point taken; on cells one of cells `step` times as long."""
        self._check(grid)
        if all((n - self._ends) % step == 0 for n in grid):
            return self
        taken = [(-(-n // step) - self._ends) * step for n in grid]
        shares = zip(self.lengths, taken, grid, strict=True)
        return Box(tuple(side * m / (n - self._ends) for side, m, n in shares), self.points)

    def gradient(self, fields: Tensor) -> tuple[Tensor, ...]:
        grid = fields.shape[2:]
        self.check_grid(grid)
        return tuple(difference(fields, axis + 2, self._spacing(axis, n)) for axis, n in enumerate(grid))

    @property
    def _ends(self) -> int:
        """Points of an axis that are not followed by an interval of their own."""
        return 1 if self.points == "nodes" else 0

    def _spacing(self, axis: int, points: int) -> float:
        return self.lengths[axis] / (points - self._ends)

    def _check(self, grid: tuple[int, ...]) -> None:
        self.check_grid(grid)
        if min(grid) < 2:
            raise InputError(f"a grid of {'x'.join(map(str, grid))} in a box; at least 2 points a side are needed")

    def _interpolate(self, u: Tensor, dim: int, size: int) -> Tensor:
        """Linear along one axis. Positions are fractions of whole numbers: a shared point is met exactly."""
        n, j = u.shape[dim], torch.arange(size, device=u.device)
        if self.points == "nodes":
            numerator, denominator = j * (n - 1), size - 1
        else:
            numerator, denominator = (2 * j + 1) * n - size, 2 * size
        left = (numerator // denominator).clamp(0, n - 2)
        weight = (numerator - left * denominator).to(u.dtype) / denominator
        weight = weight.reshape([-1 if d == dim else 1 for d in range(u.ndim)])
        return torch.lerp(u.index_select(dim, left), u.index_select(dim, left + 1), weight)
