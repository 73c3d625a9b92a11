"""Poisson's equation on the unit box, solved exactly in sines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import fft

from halfwave.data.generator import OneByOne, sample_rng
from halfwave.domains import Box
from halfwave.errors import InputError


@dataclass(frozen=True)
class Poisson(OneByOne):
    """-Lap u = f on (0, 1)^dim, u = 0 on the boundary; the operator is f -> u.

    f = sum_m sqrt(lambda_m) xi_m 2^(dim/2) sin(pi m_1 x_1) .. sin(pi m_d x_d), 1 <= m_i <= modes, with independent
    N(0, 1) numbers xi and lambda_m = (1 + |m|^2 / tau^2)^-alpha; u has the same terms divided by pi^2 |m|^2. So both
    are functions: a sample is the same one on every grid, and exact on its nodes x_j = j / (resolution - 1).
    x and y are (1, resolution, ...) float32.
    """

    resolution: int = 64
    dim: int = 2
    modes: int = 16
    tau: float = 4.0
    alpha: float = 2.0

    name: ClassVar[str] = "poisson"
    chunk: ClassVar[int] = 32
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        if self.dim not in (1, 2, 3):
            raise InputError(f"dim is {self.dim}; accepted: 1, 2, 3")
        if self.modes < 1 or self.resolution < self.modes + 2:
            raise InputError(
                f"resolution is {self.resolution} and modes {self.modes}; accepted: modes >= 1, resolution >= modes + 2"
            )
        if self.tau <= 0:
            raise InputError(f"tau is {self.tau}; it must be positive")

    @property
    def domain(self) -> Box:
        return Box((1.0,) * self.dim, "nodes")

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "-Lap u = f on (0,1)^d, u = 0 on the boundary; f -> u",
            "parameters": asdict(self),
            "solver": "exact: sine series, float64",
            "resolution": [self.resolution] * self.dim,
        }

    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) = (f, u) of one sample."""
        squared = self._squared()
        drawn = sample_rng(seed, split, index).standard_normal(squared.shape)
        coefficients = drawn * (1 + squared / self.tau**2) ** (-self.alpha / 2)
        fields = (self._values(coefficients), self._values(coefficients / (np.pi**2 * squared)))
        f, u = (field[None].astype(np.float32) for field in fields)
        return f, u

    def _squared(self) -> np.ndarray:
        """|m|^2 on the cube 1 .. modes."""
        m = np.arange(1, self.modes + 1) ** 2
        axes = (m.reshape([-1 if i == axis else 1 for i in range(self.dim)]) for axis in range(self.dim))
        return np.asarray(sum(axes, np.zeros(())))

    def _values(self, coefficients: np.ndarray) -> np.ndarray:
        inner = self.resolution - 2
        padded = np.pad(coefficients, [(0, inner - self.modes)] * self.dim)
        # scipy's DST-I counts every sine twice.
        return np.pad(fft.dstn(padded, type=1) * 2.0 ** (-self.dim / 2), 1)
