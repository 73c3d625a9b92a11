"""Forced Navier-Stokes flow on the torus: the dataset of Kossaifi et al. (2023) that the paper uses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from halfwave.data.generator import Arrays, sample_rng
from halfwave.data.random_fields import GaussianField
from halfwave.data.vorticity import VorticitySolver
from halfwave.domains import Torus
from halfwave.errors import InputError

# Grid values that are solved together: more do not fit the cache of a core, fewer leave it waiting for Python.
_BATCH_VALUES = 128 * 128


@dataclass(frozen=True)
class NavierStokes:
    """w_t + u . grad w = Lap w / Re + f on [0, 2 pi)^2, w(0) = 0; the operator is f -> w(T).

    f is a draw of N(0, 27 (-Lap + 9 I)^-4) with zero mean (a mean has no counterpart in w). As elsewhere here the
    eigenfunctions have mean square 1, which gives f a standard deviation of 0.19 and w(5) one of about 0.8.

    Grid: x_j = 2 pi j / resolution. With `solve_resolution` the equation is solved on that finer grid and the values at
    the points of the coarser one are kept, so that one sample exists at 128, 256, 512 and 1024 points.
    x and y are (1, resolution, resolution) float32.
    """

    resolution: int = 128
    solve_resolution: int | None = None
    reynolds: float = 500.0
    time: float = 5.0
    dtype: Literal["float32", "float64"] = "float64"

    name: ClassVar[str] = "navier-stokes"
    chunk: ClassVar[int] = 4
    channels: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        fine = self._fine
        if self.resolution < 1 or fine % self.resolution:
            raise InputError(f"solve_resolution is {fine}; it must be a multiple of the resolution {self.resolution}")
        if self.dtype not in ("float32", "float64"):
            raise InputError(f"dtype is {self.dtype!r}; accepted: 'float32', 'float64'")
        if self.time <= 0:
            raise InputError(f"time is {self.time}; it must be positive")
        self._solver()  # its own checks

    @property
    def field(self) -> GaussianField:
        """The law of the forcing."""
        return GaussianField(2, alpha=4.0, tau=3.0, scale=27.0, length=2 * math.pi, modes=64, zero_mean=True)

    @property
    def _fine(self) -> int:
        return self.solve_resolution or self.resolution

    def _solver(self) -> VorticitySolver:
        return VorticitySolver(self._fine, reynolds=self.reynolds, dtype=getattr(torch, self.dtype))

    @property
    def domain(self) -> Torus:
        return Torus((2 * math.pi,) * 2)

    def describe(self) -> dict[str, Any]:
        return {
            "equation": "w_t + u.grad w = Lap w / Re + f on [0,2pi)^2, u = curl phi, -Lap phi = w, w(0) = 0; f -> w(T)",
            "parameters": {**asdict(self), "field": asdict(self.field)},
            "solver": f"pseudo-spectral, 2/3 dealiased, integrating-factor RK4, adaptive step, {self.dtype}",
            "resolution": [self.resolution] * 2,
        }

    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) = (f, w(T)) of one sample."""
        [arrays] = self.samples(seed, split, [index])
        return arrays["x"], arrays["y"]

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        solver, step = self._solver(), self._fine // self.resolution
        made: list[Arrays] = []
        for group in _groups(indices, max(1, _BATCH_VALUES // self._fine**2)):
            f = np.stack([self.field.sample(sample_rng(seed, split, i), self._fine) for i in group])
            w = solver.solve(torch.from_numpy(f), self.time).numpy()
            pairs = zip(f[:, None, ::step, ::step], w[:, None, ::step, ::step], strict=True)
            made += [{"x": x.astype(np.float32), "y": y.astype(np.float32)} for x, y in pairs]
        return made


def _groups(indices: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (indices[start : start + size] for start in range(0, len(indices), size))
