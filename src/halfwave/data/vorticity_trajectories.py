"""Navier-Stokes flow from a random vorticity to later times: the time-dependent dataset of Li et al. (2021)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from halfwave.data.generator import InTime, check_times, sample_rng
from halfwave.data.random_fields import GaussianField
from halfwave.data.vorticity import VorticitySolver
from halfwave.domains import Torus
from halfwave.errors import InputError


@dataclass(frozen=True)
class VorticityTrajectories(InTime):
    """w_t + u . grad w = nu Lap w + 0.1 (sin 2 pi(x + y) + cos 2 pi(x + y)) on [0, 1)^2.

    w(0) is a draw of N(0, 7^(3/2) (-Lap + 49 I)^-2.5) with zero mean. Li et al. take nu = 1e-3 to time 50, 1e-4 to 30
    and 1e-5 to 20, on 64 x 64 points, a state each unit of time. States are (steps + 1, 1, resolution, resolution)
    float32. With `solve_resolution` the equation is solved on that finer grid.

    In X = 2 pi x the equation is that of `VorticitySolver` with Re = 1 / (4 pi^2 nu), at the same time.
    """

    resolution: int = 64
    solve_resolution: int | None = None
    viscosity: float = 1e-3
    interval: float = 1.0
    steps: int = 50

    name: ClassVar[str] = "navier-stokes-time"
    chunk: ClassVar[int] = 1
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        check_times(self.interval, self.steps)
        if self.viscosity <= 0:
            raise InputError(f"viscosity is {self.viscosity}; it must be positive")
        if self.resolution < 1 or self._fine % self.resolution:
            raise InputError(
                f"solve_resolution is {self._fine}; it must be a multiple of the resolution {self.resolution}"
            )
        self.solver()  # its own checks

    @property
    def field(self) -> GaussianField:
        """The law of w(0)."""
        modes = min(64, self._fine // 3)
        return GaussianField(2, alpha=2.5, tau=7.0, scale=7**1.5, modes=modes, zero_mean=True)

    @property
    def _fine(self) -> int:
        return self.solve_resolution or self.resolution

    @property
    def domain(self) -> Torus:
        return Torus((1.0, 1.0))

    def solver(self) -> VorticitySolver:
        return VorticitySolver(self._fine, reynolds=1 / (4 * math.pi**2 * self.viscosity))

    def forcing(self) -> Tensor:
        """On the grid that is solved on, (1, n, n)."""
        x = torch.arange(self._fine, dtype=torch.float64) / self._fine
        phase = 2 * math.pi * (x[:, None] + x)
        return 0.1 * (phase.sin() + phase.cos())[None]

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "w_t + u.grad w = nu Lap w + 0.1 (sin + cos)(2 pi(x+y)) on [0,1)^2; states from w(0) on",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "pseudo-spectral, 2/3 dealiased, integrating-factor RK4, adaptive step, float64",
            "resolution": [self.resolution] * 2,
            "interval": self.interval,
            "quantity": "vorticity",
        }

    def trajectory(self, seed: int, split: str, index: int) -> np.ndarray:
        """States (steps + 1, 1, resolution, resolution) of one sample."""
        drawn = self.field.sample(sample_rng(seed, split, index), self._fine)
        solver, forcing, states = self.solver(), self.forcing(), [torch.from_numpy(drawn)[None]]
        for _ in range(self.steps):
            states.append(solver.solve(forcing, self.interval, initial=states[-1]))
        step = self._fine // self.resolution
        return torch.stack(states)[:, :, ::step, ::step].numpy().astype(np.float32)
