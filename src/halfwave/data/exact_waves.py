"""Heat and advection on a torus: linear equations whose states are known exactly, wave by wave."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import fft

from halfwave.data.generator import InTime, check_times, sample_rng
from halfwave.data.random_fields import GaussianField
from halfwave.domains import Torus
from halfwave.errors import InputError


@dataclass(frozen=True)
class ExactWaves(InTime):
    """u_t = L u on [0, 1)^dim with L diagonal in Fourier space: û(t) = exp(t L̂) û(0), to rounding.

    u(0) is a smooth random field of frequencies below resolution / 3, which every grid of that size resolves. States
    are those at 0, time / steps, .., time: (steps + 1, 1, *grid) float32.
    """

    resolution: int = 64
    dim: int = 1
    time: float = 1.0
    steps: int = 20

    name: ClassVar[str]
    equation: ClassVar[str]
    chunk: ClassVar[int] = 32
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        check_times(self.time, self.steps)
        if self.dim not in (1, 2, 3):
            raise InputError(f"dim is {self.dim}; accepted: 1, 2, 3")
        if self.resolution < 8:
            raise InputError(f"resolution is {self.resolution}; at least 8 points a side are needed")

    @abstractmethod
    def symbol(self, *frequencies: np.ndarray) -> np.ndarray:
        """Eigenvalues of L at integer frequencies, one array an axis, broadcast against each other."""

    @property
    def field(self) -> GaussianField:
        """The law of u(0)."""
        modes = min(12, -(-self.resolution // 3))
        return GaussianField(
            self.dim, alpha=2.0, tau=7.0, scale=49.0 ** (2 - self.dim / 2), modes=modes, zero_mean=True
        )

    @property
    def domain(self) -> Torus:
        return Torus((1.0,) * self.dim)

    def describe(self) -> dict[str, Any]:
        return {
            "equation": self.equation,
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "exact: every wave by its own factor, float64",
            "resolution": [self.resolution] * self.dim,
            "interval": self.time / self.steps,
        }

    def trajectory(self, seed: int, split: str, index: int) -> np.ndarray:
        """States (steps + 1, 1, *grid) of one sample."""
        start = self.field.sample(sample_rng(seed, split, index), self.resolution)
        states = [self.state(start, self.time * i / self.steps) for i in range(self.steps + 1)]
        return np.stack(states)[:, None].astype(np.float32)

    def state(self, start: np.ndarray, time: float) -> np.ndarray:
        """u(time) from u(0), both on the grid, float64."""
        spectrum = fft.fftn(start) * np.exp(time * self.symbol(*self._frequencies()))
        return np.asarray(fft.ifftn(spectrum).real)

    def _frequencies(self) -> list[np.ndarray]:
        k = fft.fftfreq(self.resolution, 1 / self.resolution)
        return [k.reshape([-1 if i == axis else 1 for i in range(self.dim)]) for axis in range(self.dim)]


@final
@dataclass(frozen=True)
class Heat(ExactWaves):
    """u_t = diffusivity Lap u: wave k decays by exp(-diffusivity (2 pi |k|)^2 t)."""

    diffusivity: float = 1e-3

    name: ClassVar[str] = "heat"
    equation: ClassVar[str] = "u_t = a Lap u on [0,1)^d, periodic"

    def symbol(self, *frequencies: np.ndarray) -> np.ndarray:
        squared = sum((k**2 for k in frequencies), np.zeros(()))
        return np.asarray(-self.diffusivity * (2 * np.pi) ** 2 * squared)


@final
@dataclass(frozen=True)
class Advection(ExactWaves):
    """u_t + speed (d_1 + .. + d_dim) u = 0: u(x, t) = u(x - speed t, 0), along the diagonal in 2 and 3 dimensions."""

    speed: float = 1.0

    name: ClassVar[str] = "advection"
    equation: ClassVar[str] = "u_t + c (1,..,1).grad u = 0 on [0,1)^d, periodic"

    def symbol(self, *frequencies: np.ndarray) -> np.ndarray:
        return np.asarray(-2j * np.pi * self.speed * sum(frequencies, np.zeros(())))
