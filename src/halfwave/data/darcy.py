"""Darcy flow in 1, 2 and 3 dimensions: through a medium of two materials (Li et al. 2021), or through a smooth one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import numpy as np

from halfwave.data.elliptic import solve_elliptic
from halfwave.data.generator import OneByOne, sample_rng
from halfwave.data.random_fields import GaussianField
from halfwave.domains import Box
from halfwave.errors import InputError


@dataclass(frozen=True)
class DarcyFlow(OneByOne):
    """-div(a grad u) = 1 on (0, 1)^dim, u = 0 on the boundary; the operator is a -> u.

    Grid: `resolution` nodes a side, x_j = j / (resolution - 1), the boundary included. A sample is the same medium at
    every resolution. x and y are (1, resolution, ...) float32.
    """

    resolution: int = 128
    dim: int = 2

    name: ClassVar[str]
    medium: ClassVar[str] = ""
    """What the equation says of a."""
    chunk: ClassVar[int] = 16
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        if self.dim not in (1, 2, 3):
            raise InputError(f"dim is {self.dim}; Darcy flow is available in 1, 2 or 3 dimensions")
        if self.resolution < 4:
            raise InputError(f"resolution is {self.resolution}; Darcy flow needs at least 4 nodes a side")
        self._check_medium()

    @property
    @abstractmethod
    def field(self) -> GaussianField:
        """The random field that the medium is made of."""

    @abstractmethod
    def _check_medium(self) -> None: ...

    @abstractmethod
    def permeability(self, drawn: np.ndarray) -> np.ndarray:
        """a from a draw of the field, both on the nodes, float64."""

    @property
    def domain(self) -> Box:
        return Box((1.0,) * self.dim, "nodes")

    def describe(self) -> dict[str, Any]:
        return {
            "equation": f"-div(a grad u) = 1 on (0,1)^d, u = 0 on the boundary{self.medium}; a -> u",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "finite volumes, harmonic face coefficients, sine-preconditioned CG to 1e-10, float64",
            "resolution": [self.resolution] * self.dim,
        }

    def coefficient(self, seed: int, split: str, index: int) -> np.ndarray:
        """The permeability a of one sample on the nodes, float64."""
        return self.permeability(self.field.sample(sample_rng(seed, split, index), self.resolution))

    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) = (a, u) of one sample."""
        a = self.coefficient(seed, split, index)
        u = solve_elliptic(a, np.ones_like(a))
        return a[None].astype(np.float32), u[None].astype(np.float32)


@final
@dataclass(frozen=True)
class Darcy(DarcyFlow):
    """`DarcyFlow` through two materials, on the grid of the published files.

    a = `high` where a draw of N(0, (-Lap + 9 I)^-2) with Neumann boundary is >= 0, else `low`. As in Li et al.'s
    generator the constant mode of the field is left out, so that about half of every medium is of each material.
    """

    high: float = 12.0
    low: float = 3.0

    name: ClassVar[str] = "darcy"

    def _check_medium(self) -> None:
        if not (0 < self.low <= self.high):
            raise InputError(f"low and high are {self.low} and {self.high}; accepted: 0 < low <= high")

    @property
    def field(self) -> GaussianField:
        """The random field whose sign chooses the material."""
        modes = {1: 256, 2: 128, 3: 64}[self.dim]
        return GaussianField(self.dim, alpha=2.0, tau=3.0, boundary="neumann", modes=modes, zero_mean=True)

    def permeability(self, drawn: np.ndarray) -> np.ndarray:
        return np.where(drawn >= 0, self.high, self.low)


@final
@dataclass(frozen=True)
class SmoothDarcy(DarcyFlow):
    """`DarcyFlow` through a log-normal medium, a = exp(deviation g).

    g is a draw of N(0, s (-Lap + 9 I)^-3) with Neumann boundary, s such that g has variance 1 on average, constant mode
    left out. Where `Darcy` has jumps, this medium has two derivatives, so the solver is of second order in the spacing.
    """

    resolution: int = 64
    deviation: float = 1.0

    name: ClassVar[str] = "darcy-smooth"
    medium: ClassVar[str] = ", a = exp(s g)"

    def _check_medium(self) -> None:
        if not 0 < self.deviation <= 3:
            raise InputError(f"deviation is {self.deviation}; accepted: above 0, at most 3")

    @property
    def field(self) -> GaussianField:
        """The law of g: log a / deviation."""
        law = GaussianField(self.dim, alpha=3.0, tau=3.0, boundary="neumann", modes=32, zero_mean=True)
        return GaussianField(
            self.dim, 3.0, 3.0, 1 / float(law.eigenvalues().sum()), boundary="neumann", modes=32, zero_mean=True
        )

    def permeability(self, drawn: np.ndarray) -> np.ndarray:
        return np.exp(self.deviation * drawn)
