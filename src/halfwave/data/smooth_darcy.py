"""Darcy flow through a smooth medium: a log-normal permeability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from halfwave.data.elliptic import solve_elliptic
from halfwave.data.generator import Arrays, sample_rng
from halfwave.data.random_fields import GaussianField
from halfwave.domains import Box
from halfwave.errors import InputError


@dataclass(frozen=True)
class SmoothDarcy:
    """-div(a grad u) = 1 on (0, 1)^dim, u = 0 on the boundary, a = exp(deviation g); the operator is a -> u.

    g is a draw of N(0, s (-Lap + 9 I)^-3) with Neumann boundary, s such that g has variance 1 on average, constant mode
    left out. Where `Darcy` has jumps, this medium has two derivatives, so the solver is of second order in the spacing.

    Grid: `resolution` nodes a side, the boundary included. x and y are (1, resolution, ...) float32.
    """

    resolution: int = 64
    dim: int = 2
    deviation: float = 1.0

    name: ClassVar[str] = "darcy-smooth"
    chunk: ClassVar[int] = 16
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        if self.dim not in (1, 2, 3):
            raise InputError(f"dim is {self.dim}; Darcy flow is available in 1, 2 or 3 dimensions")
        if self.resolution < 4:
            raise InputError(f"resolution is {self.resolution}; Darcy flow needs at least 4 nodes a side")
        if not 0 < self.deviation <= 3:
            raise InputError(f"deviation is {self.deviation}; accepted: above 0, at most 3")

    @property
    def field(self) -> GaussianField:
        """The law of g: log a / deviation."""
        law = GaussianField(self.dim, alpha=3.0, tau=3.0, boundary="neumann", modes=32, zero_mean=True)
        return GaussianField(
            self.dim, 3.0, 3.0, 1 / float(law.eigenvalues().sum()), boundary="neumann", modes=32, zero_mean=True
        )

    @property
    def domain(self) -> Box:
        return Box((1.0,) * self.dim, "nodes")

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "-div(a grad u) = 1 on (0,1)^d, u = 0 on the boundary, a = exp(s g); a -> u",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "finite volumes, harmonic face coefficients, sine-preconditioned CG to 1e-10, float64",
            "resolution": [self.resolution] * self.dim,
        }

    def coefficient(self, seed: int, split: str, index: int) -> np.ndarray:
        """The permeability a of one sample on the nodes, float64."""
        return np.exp(self.deviation * self.field.sample(sample_rng(seed, split, index), self.resolution))

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        return [dict(zip(("x", "y"), self.sample(seed, split, index), strict=True)) for index in indices]

    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) = (a, u) of one sample."""
        a = self.coefficient(seed, split, index)
        u = solve_elliptic(a, np.ones_like(a))
        return a[None].astype(np.float32), u[None].astype(np.float32)
