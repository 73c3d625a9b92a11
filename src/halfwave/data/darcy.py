"""Darcy flow through a medium of two materials: the dataset of Li et al. (2021), in 1, 2 and 3 dimensions."""

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
class Darcy:
    """-div(a grad u) = 1 on (0, 1)^dim, u = 0 on the boundary; the operator is a -> u.

    a = `high` where a draw of N(0, (-Lap + 9 I)^-2) with Neumann boundary is >= 0, else `low`. As in Li et al.'s
    generator the constant mode of the field is left out, so that about half of every medium is of each material.

    Grid: `resolution` nodes a side, x_j = j / (resolution - 1), the boundary included, as in the published files.
    A sample is the same medium at every resolution. x and y are (1, resolution, ...) float32.
    """

    resolution: int = 128
    dim: int = 2
    high: float = 12.0
    low: float = 3.0

    name: ClassVar[str] = "darcy"
    chunk: ClassVar[int] = 16
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        if self.dim not in (1, 2, 3):
            raise InputError(f"dim is {self.dim}; Darcy flow is available in 1, 2 or 3 dimensions")
        if self.resolution < 4:
            raise InputError(f"resolution is {self.resolution}; Darcy flow needs at least 4 nodes a side")
        if not (0 < self.low <= self.high):
            raise InputError(f"low and high are {self.low} and {self.high}; accepted: 0 < low <= high")

    @property
    def field(self) -> GaussianField:
        """The random field whose sign chooses the material."""
        modes = {1: 256, 2: 128, 3: 64}[self.dim]
        return GaussianField(self.dim, alpha=2.0, tau=3.0, boundary="neumann", modes=modes, zero_mean=True)

    @property
    def domain(self) -> Box:
        return Box((1.0,) * self.dim, "nodes")

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "-div(a grad u) = 1 on (0,1)^d, u = 0 on the boundary; a -> u",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "finite volumes, harmonic face coefficients, sine-preconditioned CG to 1e-10, float64",
            "resolution": [self.resolution] * self.dim,
        }

    def coefficient(self, seed: int, split: str, index: int) -> np.ndarray:
        """The permeability a of one sample on the nodes, float64."""
        return np.where(self.field.sample(sample_rng(seed, split, index), self.resolution) >= 0, self.high, self.low)

    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) = (a, u) of one sample."""
        a = self.coefficient(seed, split, index)
        u = solve_elliptic(a, np.ones_like(a))
        return a[None].astype(np.float32), u[None].astype(np.float32)

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        return [dict(zip(("x", "y"), self.sample(seed, split, index), strict=True)) for index in indices]
