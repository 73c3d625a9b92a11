"""Gaussian random fields with covariance s (-Lap + tau^2 I)^-alpha, as functions rather than as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import fft

from halfwave.errors import InputError

Boundary = Literal["periodic", "neumann"]


@dataclass(frozen=True)
class GaussianField:
    """The law N(0, s (-Lap + tau^2 I)^-alpha) on the box [0, length]^dim.

    A draw is the function  g(x) = sum_m sqrt(lambda_m) xi_m phi_m(x),  xi_m independent N(0, 1), with
    lambda_m = s (|k_m|^2 + tau^2)^-alpha  and the eigenfunctions phi_m of the Laplacian, of mean square 1 over the box:
    products of 1, sqrt2 cos(2 pi k x / L), sqrt2 sin(2 pi k x / L) (periodic) or of 1, sqrt2 cos(pi k x / L) (Neumann).

    On the unit box these are orthonormal in L2, so the law is the textbook one; on a longer box the normalisation by
    the mean keeps the variance of the field independent of the units of length.

    The xi are drawn shell by shell in max_i k_i. So one seed is one function: on any grid it has the same values, and
    more `modes` add finer terms without changing the coarser ones.

    `modes` counts the frequencies 0 .. modes-1 per axis; `zero_mean` drops the constant, as Li et al.'s generator does.
    """

    dim: int
    alpha: float
    tau: float
    scale: float = 1.0
    boundary: Boundary = "periodic"
    length: float = 1.0
    modes: int = 64
    zero_mean: bool = False

    def __post_init__(self) -> None:
        if self.dim not in (1, 2, 3):
            raise InputError(f"dim is {self.dim}; a random field has 1, 2 or 3 dimensions")
        if self.boundary not in ("periodic", "neumann"):
            raise InputError(f"boundary is {self.boundary!r}; accepted: 'periodic', 'neumann'")
        if self.modes < 1:
            raise InputError(f"modes is {self.modes}; at least 1 is needed")
        if self.length <= 0 or self.scale <= 0:
            raise InputError(f"length and scale are {self.length} and {self.scale}; both must be positive")

    def sample(self, rng: np.random.Generator, resolution: int) -> np.ndarray:
        """One draw on a grid with `resolution` points a side, float64.

        Periodic points are j L / n, j < n; Neumann points are j L / (n - 1), the boundary included.
        """
        return self.evaluate(self.draw(rng), resolution)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The coefficients sqrt(lambda_m) xi_m of one draw: a cube with one index of the 1-D basis per axis."""
        order = _shell_order(self.dim, self.modes, self.boundary)
        xi = np.empty(order.size)
        xi[order] = rng.standard_normal(order.size)
        return xi.reshape(self._cube) * np.sqrt(self.eigenvalues())

    def eigenvalues(self) -> np.ndarray:
        """lambda_m on the cube of basis indices: the variance of each coefficient."""
        return _eigenvalues(self)

    def evaluate(self, coefficients: np.ndarray, resolution: int) -> np.ndarray:
        """The function with these coefficients on a grid of `resolution` points a side, exactly (no truncation)."""
        if resolution < 2:
            raise InputError(f"resolution is {resolution}; a random field needs at least 2 points a side")
        values = coefficients
        synthesis = _cosine_synthesis if self.boundary == "neumann" else _fourier_synthesis
        for axis in range(self.dim):
            values = synthesis(values, resolution, axis)
        return values

    @property
    def _cube(self) -> tuple[int, ...]:
        return (len(_basis_frequencies(self.modes, self.boundary)),) * self.dim


def _basis_frequencies(modes: int, boundary: Boundary) -> np.ndarray:
    """Frequency of each 1-D basis function: 0 1 2 .. (cosines) or 0 1 1 2 2 .. (1, cos, sin, cos, sin ..)."""
    if boundary == "neumann":
        return np.arange(modes)
    return (np.arange(2 * modes - 1) + 1) // 2


@lru_cache(maxsize=8)
def _shell_order(dim: int, modes: int, boundary: Boundary) -> np.ndarray:
    """Flat indices of the coefficient cube by shell max_i k_i, then lexicographic: a prefix of every larger one."""
    k = _basis_frequencies(modes, boundary)
    shell = np.zeros((len(k),) * dim, dtype=np.int64)
    for axis in range(dim):
        shell = np.maximum(shell, _along(k, axis, dim))
    return np.argsort(shell, axis=None, kind="stable")


@lru_cache(maxsize=8)
def _eigenvalues(field: GaussianField) -> np.ndarray:
    wavenumber = math.pi / field.length * (1 if field.boundary == "neumann" else 2)
    k = _basis_frequencies(field.modes, field.boundary) * wavenumber
    squared: np.ndarray = sum((_along(k**2, axis, field.dim) for axis in range(field.dim)), np.zeros(()))
    shifted = squared + field.tau**2
    if field.zero_mean:
        shifted[(0,) * field.dim] = np.inf
    elif field.tau == 0:
        raise InputError("tau is 0, so the constant mode has no finite variance; set zero_mean=True")
    return field.scale * shifted ** (-field.alpha)


def _along(vector: np.ndarray, axis: int, dim: int) -> np.ndarray:
    return vector.reshape([-1 if i == axis else 1 for i in range(dim)])


def _cosine_synthesis(coefficients: np.ndarray, resolution: int, axis: int) -> np.ndarray:
    """sum_k c_k phi_k at j / (n - 1), by DCT-I on a multiple of the grid that resolves every k."""
    modes = coefficients.shape[axis]
    refine = -(-modes // (resolution - 1))  # so that every k is below the fine grid's last cosine
    fine = (resolution - 1) * refine + 1
    padded = np.moveaxis(_pad(coefficients, fine, axis), axis, -1) * math.sqrt(0.5)
    padded[..., 0] *= math.sqrt(2.0)
    values = fft.dct(padded, type=1, axis=-1)
    # scipy's DCT-I counts the constant once and the other cosines twice: hence the two factors above.
    return np.moveaxis(values[..., ::refine], -1, axis)


def _fourier_synthesis(coefficients: np.ndarray, resolution: int, axis: int) -> np.ndarray:
    """c_0 + sqrt2 sum_k (c_k cos + s_k sin) at j / n, by an inverse real FFT on a multiple of the grid."""
    c = np.moveaxis(coefficients, axis, -1)
    modes = (c.shape[-1] + 1) // 2
    refine = -(-(2 * modes) // resolution)
    fine = resolution * refine
    spectrum = np.zeros((*c.shape[:-1], fine // 2 + 1), dtype=np.complex128)
    spectrum[..., 0] = c[..., 0]
    spectrum[..., 1:modes] = (c[..., 1::2] - 1j * c[..., 2::2]) * math.sqrt(0.5)
    values = fft.irfft(spectrum, n=fine, axis=-1, norm="forward")
    return np.moveaxis(values[..., ::refine], -1, axis)


def _pad(array: np.ndarray, size: int, axis: int) -> np.ndarray:
    width = [(0, 0)] * array.ndim
    width[axis] = (0, size - array.shape[axis])
    return np.pad(array, width)
