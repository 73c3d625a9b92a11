"""The truncated Fourier transform of real fields, in any format.

Forward: v_hat(k) = (1/N) sum_n v(n) e^{-2πi k·n/N} for the kept k only. Inverse: v(n) = Re sum_k v_hat(k) e^{2πi k·n/N}
with the frequencies of the last axis counted twice where they stand for k and -k.

Shapes: fields (B, C, *grid); spectra (*K, 2, B, C), mode-major with the real and imaginary parts as a pair axis, so
that a contraction with weights of shape (*K, C, 2, O) is one batched real matrix product.

Two backends with the same result: ``"gemm"`` multiplies by cached matrices (one per axis) that compute the kept modes
only; ``"fft"`` runs torch's FFT and keeps what it needs. ``"auto"`` picks the cheaper one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic
from halfwave.spectral import fft, gemm
from halfwave.spectral.cost import cheaper_backend, narrow_range
from halfwave.spectral.matrices import Weighting
from halfwave.spectral.modes import AxisModes, Layout, kept_modes, weight_modes

Backend = Literal["auto", "gemm", "fft"]
BACKENDS = ("auto", "gemm", "fft")


class Engine(Protocol):
    """What a backend offers: analysis of fields into kept modes, and its adjoint."""

    def analyse(self, x: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting) -> Tensor: ...

    def synthesise(
        self, s: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting
    ) -> Tensor: ...


@dataclass(frozen=True)
class FourierTransform:
    """A transform to `n_modes` frequencies per axis (the last one halved, as fields are real).

    Any grid size works: odd, prime, non-square, smaller than the modes. `layout` is explained in `modes`.
    """

    n_modes: tuple[int, ...]
    backend: Backend = "auto"
    layout: Layout = "exact"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"unknown backend {self.backend!r}: expected one of {', '.join(BACKENDS)}")
        if self.layout not in ("exact", "neuralop"):
            raise ValueError(f"unknown layout {self.layout!r}: expected 'exact' or 'neuralop'")

    @property
    def dim(self) -> int:
        return len(self.n_modes)

    @property
    def weight_modes(self) -> tuple[int, ...]:
        """Shape of the mode axes of the weights."""
        return weight_modes(self.n_modes)

    def modes(self, grid: tuple[int, ...]) -> tuple[AxisModes, ...]:
        """The kept modes on a grid."""
        return kept_modes(grid, self.n_modes, self.layout)

    def weight_slices(self, grid: tuple[int, ...]) -> tuple[slice, ...]:
        """Which weights the modes of this grid use."""
        return tuple(axis.weight_slice for axis in self.modes(grid))

    def forward(self, x: Tensor, arith: Arithmetic) -> Tensor:
        """(B, C, *grid) to (*K, 2, B, C): means of the field against each kept mode."""
        modes = self.modes(tuple(x.shape[2:]))
        return _Analyse.apply(x, self.engine(modes, arith, x.device), modes, arith, "mean")

    def inverse(self, x_hat: Tensor, grid: tuple[int, ...], source: tuple[int, ...], arith: Arithmetic) -> Tensor:
        """(*K, 2, B, C), as kept on the grid `source`, to the field (B, C, *grid)."""
        modes = self.modes(grid)
        if grid != source:
            x_hat, modes = _restrict(x_hat, self.modes(source), modes)
        return _Synthesise.apply(x_hat, self.engine(modes, arith, x_hat.device), modes, arith, "hermitian")

    def engine(self, modes: tuple[AxisModes, ...], arith: Arithmetic, device: torch.device) -> Engine:
        """The backend that runs for these modes."""
        name = self.backend if self.backend != "auto" else cheaper_backend(modes, arith, device)
        return gemm if name == "gemm" else fft

    def half_fft(self, grid: tuple[int, ...], arith: Arithmetic, device: torch.device) -> bool:
        """True when the forward transform is an FFT in a format whose range it can leave."""
        return narrow_range(arith.format) and self.engine(self.modes(grid), arith, device) is fft

    def add_constant(self, x_hat: Tensor, constant: Tensor, grid: tuple[int, ...]) -> bool:
        """Add a constant per channel (C,) to the field by adding it to its mean, in place; False if that cannot be.

        One number per channel instead of a pass over the grid, and the gradient comes as cheaply.
        """
        modes = self.modes(grid)
        if any(axis.shift for axis in modes):
            return False
        x_hat[(*(-axis.first for axis in modes), 0)] += constant.to(x_hat.dtype)
        return True


class _Analyse(torch.autograd.Function):
    """Analysis; its backward pass is synthesis with the same weights, in the same arithmetic."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, engine: Engine, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting
    ) -> Tensor:
        ctx.rest = (engine, modes, arith, weighting)
        ctx.dtype = x.dtype
        return engine.analyse(x, modes, arith, weighting)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Synthesise.apply(grad, *ctx.rest).to(ctx.dtype), None, None, None, None


class _Synthesise(torch.autograd.Function):
    """Synthesis; its backward pass is analysis with the same weights, in the same arithmetic."""

    @staticmethod
    def forward(
        ctx: Any, s: Tensor, engine: Engine, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting
    ) -> Tensor:
        ctx.rest = (engine, modes, arith, weighting)
        ctx.dtype = s.dtype
        return engine.synthesise(s, modes, arith, weighting)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Analyse.apply(grad, *ctx.rest).to(ctx.dtype), None, None, None, None


def _restrict(
    x_hat: Tensor, source: tuple[AxisModes, ...], target: tuple[AxisModes, ...]
) -> tuple[Tensor, tuple[AxisModes, ...]]:
    """The frequencies that both grids have, as kept on the target grid: band-limited interpolation."""
    window, modes = [], []
    for a, b in zip(source, target, strict=True):
        first, end = max(a.first, b.first), min(a.first + a.count, b.first + b.count)
        window.append(slice(first - a.first, end - a.first))
        modes.append(AxisModes(b.size, first, end - first, b.weight_start, b.shift))
    return x_hat[tuple(window)], tuple(modes)
