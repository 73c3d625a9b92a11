"""Multilinear interpolants: functions given by samples whose constants and Fourier integrals are exact.

A user's data are samples. Between them the plainest function is the multilinear interpolant, and for it every
constant of the discretization theorems is a maximum over samples, not an estimate: its bounds are guaranteed. Of any
other function with these samples the same figures are estimates: at most the true constants, who knows how far below.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfwave.errors import InputError
from halfwave.theory.bound import Estimate
from halfwave.theory.lattice import Integers, read_lattice

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interpolant:
    """v: [0,1]^d -> R, multilinear between `nodes` at i/K_k, i = 0..K_k (both ends included).

    Shapes: nodes (B, K_1+1, ..., K_d+1), B functions at once; each method returns one value for each. A periodic
    function repeats its first node as its last along every axis; then pass ``periodic=True``.
    """

    nodes: Array
    periodic: bool = False

    @classmethod
    def from_samples(cls, samples: ArrayLike, *, periodic: bool = False) -> Interpolant:
        """One function from an array (K_1+1, ..., K_d+1) of samples; periodic data come without the repeated end."""
        values = np.asarray(samples, dtype=np.float64)
        if values.ndim == 0 or not np.all(np.isfinite(values)):
            raise InputError(f"samples must be a finite array with one axis for each dimension, got {samples!r:.80}")
        if periodic:
            values = np.pad(values, [(0, 1)] * values.ndim, mode="wrap")
        if min(values.shape) < 2:
            raise InputError(f"samples need at least two points along each axis, got shape {values.shape}")
        return cls(values[None], periodic)

    @property
    def dimension(self) -> int:
        return self.nodes.ndim - 1

    @property
    def intervals(self) -> tuple[int, ...]:
        return tuple(size - 1 for size in self.nodes.shape[1:])

    def sup(self) -> Array:
        """max|v|: attained at a node."""
        return np.abs(self.nodes).max(axis=self._all_axes)

    def lipschitz(self) -> Array:
        """(B, d): max|dv/dx_k|, attained at an edge between nodes."""
        sizes = [np.abs(self._slopes(k)).max(axis=self._all_axes) for k in range(self.dimension)]
        return np.stack(sizes, axis=-1)

    def euclidean_lipschitz(self) -> Array:
        """(B,): max|grad v|. On a cell each partial derivative is multilinear in the other coordinates, so |grad|^2
        is convex along every axis and largest at a corner of the cell, seen from inside that cell."""
        best = np.zeros(self.nodes.shape[0])
        for corner in itertools.product((0, 1), repeat=self.dimension):
            square = sum(self._slope_at(k, corner) ** 2 for k in range(self.dimension))
            best = np.maximum(best, np.sqrt(np.max(square, axis=self._all_axes)))
        return best

    def variation(self) -> Array:
        """(B, d): the largest variation along lines of each axis: convex across lines, so attained on a node line."""
        along = [np.abs(np.diff(self.nodes, axis=k + 1)).sum(axis=k + 1, keepdims=True) for k in range(self.dimension)]
        return np.stack([size.max(axis=self._all_axes) for size in along], axis=-1)

    def slope_variation(self) -> Array:
        """(B, d): the largest variation of dv/dx_k along lines of axis k round the circle: V_2 of theorem T4."""
        if not self.periodic:
            raise InputError("slope_variation is for periodic functions: the theorem that uses it is")
        sizes = []
        for k in range(self.dimension):
            slopes = self._slopes(k)
            jumps = np.abs(slopes - np.roll(slopes, 1, axis=k + 1)).sum(axis=k + 1, keepdims=True)
            sizes.append(jumps.max(axis=self._all_axes))
        return np.stack(sizes, axis=-1)

    def fourier(self, frequency: Integers) -> NDArray[np.complex128]:
        """(B,): int v e^{2 pi i <w,x>} dx in closed form."""
        lattice = read_lattice(frequency, self.intervals)
        return self._contract([_hat_integrals(axis.frequency, axis.side) for axis in lattice.axes])

    def coefficient(self, frequency: Integers, grid: Integers) -> NDArray[np.complex128]:
        """(B,): v_h(w) = (1/n) sum_j v(xi_j) e^{2 pi i <w, xi_j>} on any grid."""
        lattice = read_lattice(frequency, grid)
        vectors = []
        for axis, count in zip(lattice.axes, self.intervals, strict=True):
            # The phase is reduced in integers: cos and sin of a large argument would lose digits.
            phase = np.exp(2j * np.pi * ((axis.frequency * np.arange(axis.side)) % axis.side) / axis.side)
            vectors.append(phase @ _hat_values(count, np.arange(axis.side) / axis.side) / axis.side)
        return self._contract(vectors)

    def __call__(self, points: ArrayLike) -> Array:
        """v at points (P, d): values (B, P), or (P,) where B = 1 (as `discretization_error` expects)."""
        x = np.asarray(points, dtype=np.float64)
        flat = x.reshape(-1, self.dimension)
        values = np.broadcast_to(self.nodes[:, None], (self.nodes.shape[0], flat.shape[0], *self.nodes.shape[1:]))
        for k, count in enumerate(self.intervals):
            hats = _hat_values(count, flat[:, k])
            values = np.einsum("bpi...,pi->bp...", values, hats)
        shaped = values.reshape(self.nodes.shape[0], *x.shape[:-1])
        return shaped[0] if self.nodes.shape[0] == 1 else shaped

    @property
    def _all_axes(self) -> tuple[int, ...]:
        return tuple(range(1, self.nodes.ndim))

    def _slopes(self, k: int) -> Array:
        return np.diff(self.nodes, axis=k + 1) * self.intervals[k]

    def _slope_at(self, k: int, corner: tuple[int, ...]) -> Array:
        """dv/dx_k of every cell at one of its corners."""
        slopes = self._slopes(k)
        window = [slice(None)]
        for axis, side in enumerate(corner):
            window.append(slice(None) if axis == k else slice(side, slopes.shape[axis + 1] - 1 + side))
        return slopes[tuple(window)]

    def _contract(self, vectors: list[NDArray[np.complex128]]) -> NDArray[np.complex128]:
        result: NDArray[np.complex128] = self.nodes.astype(np.complex128)
        for vector in reversed(vectors):
            result = result @ vector
        return result


def _hat_values(count: int, x: Array) -> Array:
    """(points, count+1): the piecewise linear basis at x."""
    return np.clip(1.0 - np.abs(x[:, None] * count - np.arange(count + 1)), 0.0, None)


def _hat_integrals(w: int, count: int) -> NDArray[np.complex128]:
    """(count+1,): int hat_i e^{2 pi i w x} dx, with half hats at the ends."""
    h = 1.0 / count
    if w == 0:
        integrals = np.full(count + 1, h, dtype=np.complex128)
        integrals[[0, -1]] = h / 2.0
        return integrals
    phase = np.exp(2j * np.pi * ((w * np.arange(count + 1)) % count) * h)
    integrals = h * np.sinc(w * h) ** 2 * phase
    a = 2.0 * math.pi * w
    half = (1.0 + 1j * a * h - np.exp(1j * a * h)) / (a * a * h)
    integrals[0], integrals[-1] = half, half.conjugate()
    return integrals


def estimate_lipschitz(samples: ArrayLike, *, periodic: bool = False) -> tuple[Estimate, ...]:
    """One Lipschitz constant for each axis, from neighbouring samples (K_1, ..., K_d).

    The samples span [0,1] with both ends, or the periodic cell without the repeated end.
    """
    sizes = Interpolant.from_samples(samples, periodic=periodic).lipschitz()[0]
    return _estimates(sizes, "largest difference quotient between neighbouring samples")


def estimate_variation(samples: ArrayLike, *, periodic: bool = False) -> tuple[Estimate, ...]:
    """The largest variation along sampled lines of each axis (round the circle if periodic)."""
    sizes = Interpolant.from_samples(samples, periodic=periodic).variation()[0]
    return _estimates(sizes, "largest variation along sampled lines")


def _estimates(sizes: np.ndarray, method: str) -> tuple[Estimate, ...]:
    return tuple(Estimate(float(size), method) for size in sizes)
