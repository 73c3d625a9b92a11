"""Torus: a domain that is periodic along every axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from torch import Tensor

from halfwave.domains.derivatives import periodic_difference, spectral
from halfwave.domains.domain import Sided
from halfwave.domains.waves import interpolate_periodic
from halfwave.errors import InputError


@final
@dataclass(frozen=True)
class Torus(Sided):
    """[0, L_1) x .. x [0, L_d), d = 1, 2 or 3; of n points along an axis, point j lies at j L / n.

    Between points a field is its trigonometric interpolant, exact for waves that the grid resolves, on any number of
    points. Derivatives are those of the interpolant (``"spectral"``), or second-order differences (``"difference"``:
    neuraloperator's, which a jump disturbs less).
    """

    derivative: Literal["spectral", "difference"] = "spectral"

    kind: ClassVar[str] = "torus"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.derivative not in ("spectral", "difference"):
            raise InputError(f"derivative is {self.derivative!r}; accepted: spectral, difference")

    @property
    def name(self) -> str:
        return "torus"

    @property
    def periodic(self) -> tuple[bool, ...]:
        return (True,) * len(self.lengths)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "lengths": list(self.lengths), "derivative": self.derivative}

    def resample(self, fields: Tensor, grid: tuple[int, ...]) -> Tensor:
        for sizes in (fields.shape[2:], grid):
            self.check_grid(sizes)
        for dim, size in enumerate(grid, start=2):
            if size != fields.shape[dim]:
                fields = interpolate_periodic(fields, dim, size)
        return fields.contiguous()

    def every(self, step: int, grid: tuple[int, ...]) -> Torus:
        self.check_grid(grid)
        for n in grid:
            if n % step:
                raise InputError(
                    f"a stride of {step} leaves no periodic grid of {n} points of a torus; accepted: a divisor of {n}, "
                    f"or a resolution instead"
                )
        return self

    def gradient(self, fields: Tensor) -> tuple[Tensor, ...]:
        self.check_grid(fields.shape[2:])
        if self.derivative == "spectral":
            return tuple(spectral(fields, dim, side) for dim, side in enumerate(self.lengths, start=2))
        return tuple(
            periodic_difference(fields, dim, side / fields.shape[dim]) for dim, side in enumerate(self.lengths, start=2)
        )
