"""Viscous Burgers' equation on the circle: the dataset of Li et al. (2021), with the states on the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from halfwave.data.generator import InTime, check_times, sample_rng
from halfwave.data.periodic_line import PeriodicLine, wavenumbers
from halfwave.data.random_fields import GaussianField
from halfwave.domains import Torus
from halfwave.errors import InputError


@dataclass(frozen=True)
class Burgers(InTime):
    """u_t + (u^2 / 2)_x = nu u_xx on [0, 1), u(0) a draw of N(0, 625 (-d_xx + 25 I)^-2) with zero mean.

    The trajectory has the states at 0, T / steps, .., T: (steps + 1, 1, resolution) float32. Li et al.'s operator
    u(0) -> u(1) is from the first to the last, which is how a file of trajectories is read when nothing else is asked.
    """

    resolution: int = 1024
    viscosity: float = 0.1
    time: float = 1.0
    steps: int = 20

    name: ClassVar[str] = "burgers"
    chunk: ClassVar[int] = 8
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        check_times(self.time, self.steps)
        if self.viscosity <= 0:
            raise InputError(f"viscosity is {self.viscosity}; it must be positive")
        self._solver()  # its own checks

    @property
    def field(self) -> GaussianField:
        """The law of u(0)."""
        modes = min(256, self.resolution // 3)
        return GaussianField(1, alpha=2.0, tau=5.0, scale=625.0, modes=modes, zero_mean=True)

    @property
    def domain(self) -> Torus:
        return Torus((1.0,))

    def _solver(self) -> PeriodicLine:
        symbol = -self.viscosity * wavenumbers(1.0, self.resolution) ** 2
        return PeriodicLine(1.0, self.resolution, tuple(symbol.tolist()), step=min(2e-3, 0.5 / self.resolution))

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "u_t + (u^2/2)_x = nu u_xx on [0,1), periodic; states from u(0) to u(T)",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "pseudo-spectral, 2/3 dealiased, ETDRK4, float64",
            "resolution": [self.resolution],
            "interval": self.time / self.steps,
        }

    def trajectory(self, seed: int, split: str, index: int) -> np.ndarray:
        """States (steps + 1, 1, resolution) of one sample."""
        start = self.field.sample(sample_rng(seed, split, index), self.resolution)
        states = [start, *self._solver().states(start, self.time / self.steps, self.steps)]
        return np.stack(states)[:, None].astype(np.float32)
