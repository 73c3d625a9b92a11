"""The Kuramoto-Sivashinsky equation on a circle: chaos in one dimension."""

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
class KuramotoSivashinsky(InTime):
    """u_t + u u_x + u_xx + u_xxxx = 0 on [0, length), zero mean.

    Waves shorter than 2 pi grow and longer ones are fed by them: on a circle of length 64 the largest Lyapunov exponent
    is about 0.09, so that two neighbouring states part e-fold in some 11 units of time (Edson et al. 2019).

    A trajectory begins after `warm_up` units of time from a smooth random start, on the attractor; it has the states at
    0, interval, .., steps * interval: (steps + 1, 1, resolution) float32.
    """

    resolution: int = 128
    length: float = 64.0
    interval: float = 0.5
    steps: int = 200
    warm_up: float = 100.0

    name: ClassVar[str] = "kuramoto-sivashinsky"
    chunk: ClassVar[int] = 4
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        check_times(self.interval, self.steps)
        if self.length <= 0 or self.warm_up < 0:
            raise InputError(
                f"length and warm_up are {self.length} and {self.warm_up}; accepted: length > 0, warm_up >= 0"
            )
        self.solver()  # its own checks

    @property
    def field(self) -> GaussianField:
        """The law of the start, of variance about 1; what is left of it on the attractor is chance."""
        modes = min(8, self.resolution // 3)
        return GaussianField(1, alpha=1.0, tau=0.0, scale=0.01, length=self.length, modes=modes, zero_mean=True)

    @property
    def domain(self) -> Torus:
        return Torus((self.length,))

    def solver(self) -> PeriodicLine:
        k = wavenumbers(self.length, self.resolution)
        return PeriodicLine(self.length, self.resolution, tuple((k**2 - k**4).tolist()), step=0.05)

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "u_t + u u_x + u_xx + u_xxxx = 0 on [0,L), periodic; states on the attractor",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": "pseudo-spectral, 2/3 dealiased, ETDRK4 of step 0.05, float64",
            "resolution": [self.resolution],
            "interval": self.interval,
        }

    def trajectory(self, seed: int, split: str, index: int) -> np.ndarray:
        """States (steps + 1, 1, resolution) of one sample."""
        start = self.field.sample(sample_rng(seed, split, index), self.resolution)
        if self.warm_up:
            [start] = self.solver().states(start, self.warm_up, 1)
        states = [start, *self.solver().states(start, self.interval, self.steps)]
        return np.stack(states)[:, None].astype(np.float32)
