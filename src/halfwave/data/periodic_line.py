"""A pseudo-spectral solver of u_t = L u - (u^2)_x / 2 on a periodic line, with L diagonal in Fourier space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy import fft

from halfwave.errors import InputError

# Points of the contour around hL on which the coefficients are means: they cancel to rounding where hL is near 0.
_CONTOUR = 32


class _Weights(NamedTuple):
    """Coefficients of ETDRK4 at every frequency."""

    half: np.ndarray
    full: np.ndarray
    stage: np.ndarray
    first: np.ndarray
    middle: np.ndarray
    last: np.ndarray


@dataclass(frozen=True)
class PeriodicLine:
    """Exponential time differencing, Runge-Kutta of order 4 (Cox and Matthews 2002, Kassam and Trefethen 2005).

    `symbol` holds the eigenvalues of L at the wavenumbers 2 pi k / length, k = 0 .. n/2, so that stiffness never limits
    the step. The square is free of aliasing (the 2/3 rule): frequencies from n/3 on are cut at the start and stay zero.
    """

    length: float
    resolution: int
    symbol: tuple[float, ...]
    step: float

    def __post_init__(self) -> None:
        if self.resolution < 8 or self.resolution % 2:
            raise InputError(f"resolution is {self.resolution}; an even number of at least 8 points is needed")
        if self.step <= 0:
            raise InputError(f"step is {self.step}; it must be positive")

    def states(self, u: np.ndarray, interval: float, count: int) -> Iterator[np.ndarray]:
        """u after `interval`, 2 `interval`, ..: `count` states of n float64 values, each by whole steps."""
        steps = max(1, round(interval / self.step))
        weights = self._weights(interval / steps)
        u_hat = fft.rfft(u, norm="forward") * self._kept
        for _ in range(count):
            for _ in range(steps):
                u_hat = self._advance(u_hat, weights)
            state = fft.irfft(u_hat, n=self.resolution, norm="forward")
            if not np.isfinite(state).all():
                raise ArithmeticError(f"the solution on {self.resolution} points became infinite; take a smaller step")
            yield state

    def _advance(self, u: np.ndarray, w: _Weights) -> np.ndarray:
        at_u = self._flux(u)
        a = w.half * u + w.stage * at_u
        at_a = self._flux(a)
        at_b = self._flux(w.half * u + w.stage * at_a)
        at_c = self._flux(w.half * a + w.stage * (2 * at_b - at_u))
        return w.full * u + w.first * at_u + w.middle * (at_a + at_b) + w.last * at_c

    def _flux(self, u_hat: np.ndarray) -> np.ndarray:
        u = fft.irfft(u_hat, n=self.resolution, norm="forward")
        return self._derivative * fft.rfft(u * u, norm="forward")

    def _weights(self, h: float) -> _Weights:
        z = h * np.asarray(self.symbol)
        r = z[:, None] + np.exp(1j * np.pi * (np.arange(1, _CONTOUR + 1) - 0.5) / _CONTOUR)
        e = np.exp(r)

        def mean(values: np.ndarray) -> np.ndarray:
            return h * values.real.mean(axis=1)

        return _Weights(
            np.exp(z / 2),
            np.exp(z),
            mean((np.exp(r / 2) - 1) / r),
            mean((-4 - r + e * (4 - 3 * r + r**2)) / r**3),
            mean(2 * (2 + r + e * (r - 2)) / r**3),
            mean((-4 - 3 * r - r**2 + e * (4 - r)) / r**3),
        )

    @cached_property
    def _kept(self) -> np.ndarray:
        k = np.arange(self.resolution // 2 + 1)
        return (k < self.resolution / 3).astype(np.float64)

    @cached_property
    def _derivative(self) -> np.ndarray:
        return -0.5j * wavenumbers(self.length, self.resolution) * self._kept


def wavenumbers(length: float, resolution: int) -> np.ndarray:
    """2 pi k / length for k = 0 .. n/2."""
    return 2 * np.pi / length * np.arange(resolution // 2 + 1)
