"""Shallow water on the rotating sphere from random initial states: the dataset of Bonev et al. (2023)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch_harmonics.examples import ShallowWaterSolver

from halfwave.data.generator import OneByOne, sample_rng
from halfwave.domains import Sphere
from halfwave.errors import InputError

_RANDOM_DEGREES = 120  # random coefficients for degrees 0 .. 119, cut to what the grid carries
_STEPS_PER_HOUR = 24  # 150 s: what the fastest gravity wave of degree 86 allows (third-order Adams-Bashforth)
_SAFE_DEGREE = 86


@dataclass(frozen=True)
class ShallowWater(OneByOne):
    """phi_t + div(phi u) = 0, u_t + u . grad u + 2 Omega k x u = -grad phi on the Earth.

    The operator is (phi, vorticity, divergence)(0) -> (phi, vorticity, divergence)(hours).

    Solved by torch-harmonics' spectral solver (float32, degrees below nlat / 3, fourth-power hyperdiffusion), from its
    random initial states: independent coefficients of equal variance, heights of 120 m about 10 km, Mach number 0.2.
    Fields are normalised: their mean subtracted and divided by their standard deviation, both those of the law of the
    initial state (torch-harmonics takes them from one random sample, which would make a sample depend on another).

    Grid: equiangular, `resolution` latitudes from the north pole to the south pole, twice as many longitudes.
    x and y are (3, resolution, 2 resolution) float32.
    """

    resolution: int = 256
    hours: float = 1.0
    mach: float = 0.2

    name: ClassVar[str] = "shallow-water"
    chunk: ClassVar[int] = 2
    channels: ClassVar[tuple[int, int]] = (3, 3)

    def __post_init__(self) -> None:
        if self.resolution < 8:
            raise InputError(f"resolution is {self.resolution}; shallow water needs at least 8 latitudes")
        if self.hours <= 0 or self.mach <= 0:
            raise InputError(f"hours and mach are {self.hours} and {self.mach}; both must be positive")

    @property
    def degrees(self) -> int:
        """Spherical harmonics kept: a third of the latitudes, so that products are not aliased."""
        return math.ceil(self.resolution / 3)

    @property
    def steps(self) -> int:
        return math.ceil(_STEPS_PER_HOUR * self.hours * max(1.0, self.degrees / _SAFE_DEGREE))

    @property
    def domain(self) -> Sphere:
        return Sphere("equiangular")

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "phi_t + div(phi u) = 0, u_t + u.grad u + 2 Omega k x u = -grad phi; state(0) -> state(T)",
            "parameters": asdict(self),
            "channels": ["geopotential", "vorticity", "divergence"],
            "normalisation": dict(
                zip(("mean", "std"), (v.flatten().tolist() for v in self._normalisation()), strict=True)
            ),
            "solver": f"torch-harmonics ShallowWaterSolver, {self.steps} steps, {self.degrees} degrees, float32",
            "resolution": [self.resolution, 2 * self.resolution],
        }

    def solver(self) -> ShallowWaterSolver:
        """torch-harmonics' solver with this grid and time step."""
        return _build_solver(self.resolution, self.degrees, 3600 * self.hours / self.steps)

    def initial_state(self, seed: int, split: str, index: int) -> Tensor:
        """Spectral coefficients of (phi, vorticity, divergence), 3 x degrees x degrees, complex64."""
        rng, n = sample_rng(seed, split, index), _RANDOM_DEGREES
        # The same coefficients for every resolution; a complex normal of variance 1 has parts of variance 1/2.
        normal = (rng.standard_normal((3, n, n)) + 1j * rng.standard_normal((3, n, n))) * math.sqrt(0.5)
        kept = min(n, self.degrees)
        spectrum = torch.zeros(3, self.degrees, self.degrees, dtype=torch.complex64)
        spectrum[:, :kept, :kept] = torch.from_numpy(normal[:, :kept, :kept] * math.sqrt(4 * math.pi / (n * (n + 1))))
        spectrum *= self._amplitudes()
        spectrum[0, 0, 0] += (
            math.sqrt(4 * math.pi) * _constant(self.solver(), "havg") * _constant(self.solver(), "gravity")
        )
        return torch.tril(spectrum)

    def _amplitudes(self) -> Tensor:
        """Physical scale of each field (3 x 1 x 1): g times 120 m; vorticity and divergence of the Mach number."""
        gravity, height, radius, swell = (
            _constant(self.solver(), name) for name in ("gravity", "havg", "radius", "hamp")
        )
        rate = self.mach * math.sqrt(gravity * height) / radius
        return torch.tensor([gravity * swell, rate, rate]).reshape(3, 1, 1)

    def _normalisation(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the initial fields by their law, each 3 x 1 x 1.

        The mean square of sum c_lm Y_lm over the sphere is sum |c_lm|^2 / 4 pi; order 0 counts its real part, the
        others twice. With variance 4 pi / (n (n + 1)) each, degrees 0 .. L-1 add up to (L/2 + L (L - 1)) / (n (n + 1)).
        """
        n, kept = _RANDOM_DEGREES, min(_RANDOM_DEGREES, self.degrees)
        share = (kept / 2 + kept * (kept - 1)) / (n * (n + 1))
        mean = torch.tensor([_constant(self.solver(), "havg") * _constant(self.solver(), "gravity"), 0.0, 0.0])
        return mean.reshape(3, 1, 1), self._amplitudes() * math.sqrt(share)

    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y): the normalised state at time 0 and at `hours`."""
        solver = self.solver()
        mean, std = self._normalisation()
        with torch.no_grad():
            before = self.initial_state(seed, split, index)
            after = solver.timestep(before, self.steps)
            x, y = ((solver.spec2grid(state) - mean) / std for state in (before, after))
        return x.numpy().astype(np.float32), y.numpy().astype(np.float32)


@lru_cache(maxsize=2)
def _build_solver(latitudes: int, degrees: int, step: float) -> ShallowWaterSolver:
    return ShallowWaterSolver(latitudes, 2 * latitudes, step, lmax=degrees, mmax=degrees, grid="equiangular").float()


def _constant(solver: ShallowWaterSolver, name: str) -> float:
    return float(getattr(solver, name))
