"""Cloud: points of a surface, each sample with its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, final

from torch import Tensor

from halfwave.domains.domain import Domain
from halfwave.errors import InputError


@final
@dataclass(frozen=True)
class Cloud(Domain):
    """Points without a grid. How much a point counts, its area, comes with each sample and not with the domain."""

    kind: ClassVar[str] = "cloud"
    plot: ClassVar[Literal["plane", "map", "points"]] = "points"
    transform: ClassVar[Literal["fourier", "harmonics"] | None] = None

    @property
    def name(self) -> str:
        return "cloud"

    @property
    def axes(self) -> tuple[str, ...]:
        return ()

    @property
    def periodic(self) -> tuple[bool, ...]:
        return ()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def grid(self, resolution: int) -> NoReturn:
        raise InputError(f"resolution {resolution} is for fields on a grid: point clouds have none")

    def resample(self, fields: Tensor, grid: tuple[int, ...]) -> NoReturn:
        raise InputError(f"a grid of {'x'.join(map(str, grid))} is for fields on a grid: point clouds have none")

    def every(self, step: int, grid: tuple[int, ...]) -> Cloud:
        """Fewer points of a cloud are a cloud."""
        return self

    def gradient(self, fields: Tensor) -> NoReturn:
        raise InputError("point clouds have no derivatives: their points have no neighbours along an axis")

    def weights(self, grid: tuple[int, ...]) -> NoReturn:
        raise InputError("the points of a cloud count by the areas that come with each sample")

    def __str__(self) -> str:
        return self.name
