"""Sphere: latitudes from pole to pole and periodic longitudes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from torch import Tensor

from halfwave.domains.derivatives import on_sphere
from halfwave.domains.domain import Domain
from halfwave.domains.sphere_grids import SPHERE_GRIDS, SphereGrid, interpolation, latitudes
from halfwave.domains.waves import from_waves, interpolate_periodic, to_waves
from halfwave.errors import InputError


@final
@dataclass(frozen=True)
class Sphere(Domain):
    """The unit sphere; fields (B, C, latitudes, longitudes), north first.

    Latitudes are equiangular, θ_j = π j / (H - 1) with both poles, or those of Gauss-Legendre quadrature; longitudes
    are φ_j = 2π j / W. Between points a field is the interpolant of `latitudes`, exact for resolved harmonics.
    The gradient is (∂u/∂θ, 1/sin θ ∂u/∂φ); points count by the quadrature of their latitude.
    """

    points: SphereGrid = "equiangular"

    kind: ClassVar[str] = "sphere"
    plot: ClassVar[Literal["plane", "map", "points"]] = "map"
    transform: ClassVar[Literal["fourier", "harmonics"] | None] = "harmonics"

    def __post_init__(self) -> None:
        if self.points not in SPHERE_GRIDS:
            raise InputError(f"points is {self.points!r}; accepted: {', '.join(SPHERE_GRIDS)}")

    @property
    def name(self) -> str:
        return "sphere" if self.points == "equiangular" else "sphere-gauss"

    @property
    def axes(self) -> tuple[str, ...]:
        return "latitude", "longitude"

    @property
    def periodic(self) -> tuple[bool, ...]:
        return False, True

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "points": self.points}

    def grid(self, resolution: int) -> tuple[int, ...]:
        """`resolution` latitudes and twice as many longitudes."""
        return resolution, 2 * resolution

    def resample(self, fields: Tensor, grid: tuple[int, ...]) -> Tensor:
        for sizes in (tuple(fields.shape[2:]), grid):
            self._check(sizes)
        north_south = self._step(fields.shape[2], grid[0])
        if north_south is not None:
            return interpolate_periodic(fields[:, :, ::north_south], 3, grid[1]).contiguous()
        a_hat = to_waves(fields)
        moved = a_hat.new_empty(*a_hat.shape[:2], grid[0], a_hat.shape[3])
        for parity, matrix in enumerate(interpolation(self.points, fields.shape[2], grid[0])):
            moved[..., parity::2] = matrix.to(a_hat) @ a_hat[..., parity::2]
        return from_waves(moved, grid[1])

    def every(self, step: int, grid: tuple[int, ...]) -> Sphere:
        self._check(grid)
        kept = -(-grid[0] // step)
        if step > 1 and (grid[1] % step or kept < 2 or self._step(grid[0], kept) != step):
            size = "x".join(map(str, grid))
            raise InputError(
                f"a stride of {step} leaves no {self.points} grid of {size} points of a sphere; give a resolution"
            )
        return self

    def gradient(self, fields: Tensor) -> tuple[Tensor, ...]:
        self._check(tuple(fields.shape[2:]))
        return on_sphere(fields, latitudes(self.points, fields.shape[2])[0])

    def weights(self, grid: tuple[int, ...]) -> Tensor:
        """(latitudes, 1), float64."""
        self._check(grid)
        return latitudes(self.points, grid[0])[1][:, None]

    def __str__(self) -> str:
        return self.name

    def _step(self, count: int, size: int) -> int | None:
        """The n of `size` latitudes that are every n-th one of `count`."""
        if count == size:
            return 1
        shared = self.points == "equiangular" and (count - 1) % (size - 1) == 0
        return (count - 1) // (size - 1) if shared else None

    def _check(self, grid: tuple[int, ...]) -> None:
        self.check_grid(grid)
        if grid[0] < 3:
            raise InputError(f"a sphere of {grid[0]} latitudes; at least 3 are needed")
