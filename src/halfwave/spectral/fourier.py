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
from itertools import product

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Format, interpreted
from halfwave.spectral import fft, gemm, interpreted_gemm
from halfwave.spectral.bias import add_at
from halfwave.spectral.cost import narrow_range
from halfwave.spectral.matrices import Weighting
from halfwave.spectral.modes import AxisModes, Layout, check_owned, kept_modes, placed_modes, weight_modes
from halfwave.spectral.transform import Engine, analyse, synthesise
from halfwave.spectral.transform_plan import Backend, TransformPlan, plan_transform

BACKENDS = ("auto", "gemm", "fft")


@dataclass(frozen=True)
class FourierTransform:
    """A transform to `n_modes` frequencies per axis (the last one halved, as fields are real).

    Any grid size works: odd, prime, non-square, smaller than the modes. `layout` is explained in `modes`, and so is
    `max_n_modes`: the modes that have weights, where they are more than those that are kept.
    """

    n_modes: tuple[int, ...]
    backend: Backend = "auto"
    layout: Layout = "exact"
    max_n_modes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"unknown backend {self.backend!r}: expected one of {', '.join(BACKENDS)}")
        if self.layout not in ("exact", "neuralop"):
            raise ValueError(f"unknown layout {self.layout!r}: expected 'exact' or 'neuralop'")
        check_owned(self.n_modes, self.max_n_modes)

    @property
    def dim(self) -> int:
        return len(self.n_modes)

    @property
    def weight_modes(self) -> tuple[int, ...]:
        """Shape of the mode axes of the weights."""
        return weight_modes(self.max_n_modes or self.n_modes)

    def modes(self, grid: tuple[int, ...]) -> tuple[AxisModes, ...]:
        """The kept modes on a grid."""
        return kept_modes(grid, self.n_modes, self.layout, self.max_n_modes)

    def weight_slices(self, grid: tuple[int, ...]) -> tuple[slice, ...]:
        """Which weights the modes of this grid use."""
        return tuple([axis.weight_slice for axis in self.modes(grid)])

    def forward(self, x: Tensor, arith: Arithmetic) -> Tensor:
        """(B, C, *grid) to (*K, 2, B, C): means of the field against each kept mode."""
        plan = self.plan(tuple(x.shape[2:]), arith, x.device)
        return analyse(x, _engine(plan), plan)

    def inverse(self, x_hat: Tensor, grid: tuple[int, ...], source: tuple[int, ...], arith: Arithmetic) -> Tensor:
        """(*K, 2, B, C), as kept on the grid `source`, to the field (B, C, *grid)."""
        if grid == source:
            return self._synthesise(x_hat, self.modes(grid), arith)
        if self.layout == "exact":
            return self._synthesise(*_restrict(x_hat, self.modes(source), self.modes(grid)), arith)
        parts = [self._synthesise(x_hat[cut], modes, arith) for cut, modes in _placed(self.modes(source), grid)]
        if not parts:  # all that is kept was cut away
            return x_hat.new_zeros((*x_hat.shape[-2:], *grid), dtype=arith.storage)
        return sum(parts[1:], start=parts[0])

    def _synthesise(self, x_hat: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic) -> Tensor:
        plan = plan_transform(modes, self.backend, arith, x_hat.device, "hermitian")
        return synthesise(x_hat, _engine(plan), plan)

    def plan(self, grid: tuple[int, ...], arith: Arithmetic, device: torch.device) -> TransformPlan:
        """What the forward transform of a grid does; print it to see."""
        return plan_transform(self.modes(grid), self.backend, arith, device, "mean")

    def half_fft(self, format: Format) -> bool:
        """True when the forward transform is an FFT in a format whose range it can leave."""
        # Only an explicit choice of the fft backend runs one there: auto never does.
        return self.backend == "fft" and narrow_range(format)

    def add_constant(self, x_hat: Tensor, constant: Tensor, grid: tuple[int, ...]) -> Tensor | None:
        """Add a constant per channel (C,) to the field by adding it to its mean; None if that cannot be.

        One number per channel instead of a pass over the grid, and the gradient comes as cheaply.
        """
        where = self.place_of_mean(x_hat, grid)
        return None if where is None else add_at(x_hat, where, constant)

    def place_of_mean(self, x_hat: Tensor, grid: tuple[int, ...]) -> tuple[int | slice, ...] | None:
        """Where in a spectrum the field's mean stands; None where the inverse transform moves it."""
        modes = self.modes(grid)
        return None if any(axis.shift != 0 for axis in modes) else (*[-axis.first for axis in modes], 0)

    @property
    def products(self) -> Engine:
        """What computes a plan of pieces: an FFT needs whole axes."""
        return gemm

    def piece_plan(
        self,
        grid: tuple[int, ...],
        spans: tuple[tuple[int, int], ...],
        weighting: Weighting,
        arith: Arithmetic,
        device: torch.device,
    ) -> TransformPlan:
        """The transform, by products, of a piece of a grid: along each axis the points `spans` (start, stop)."""
        modes = tuple(axis.piece(*span) for axis, span in zip(self.modes(grid), spans, strict=True))
        return plan_transform(modes, "gemm", arith, device, weighting)


def _engine(plan: TransformPlan) -> Engine:
    if interpreted():
        return interpreted_gemm
    return gemm if plan.backend == "gemm" else fft


def _placed(
    source: tuple[AxisModes, ...], grid: tuple[int, ...]
) -> list[tuple[tuple[slice, ...], tuple[AxisModes, ...]]]:
    """The pieces that neuraloperator makes of a spectrum on its way to another grid, with the modes they become."""
    last = source[-1]
    count = min(last.count, grid[-1] // 2 + 1)
    axes = [placed_modes(axis, size) for axis, size in zip(source[:-1], grid[:-1], strict=True)]
    ends = [(slice(0, count), AxisModes(grid[-1], 0, count, 0))]
    return [(tuple(cut for cut, _ in piece), tuple(m for _, m in piece)) for piece in product(*axes, ends)]


def _restrict(
    x_hat: Tensor, source: tuple[AxisModes, ...], target: tuple[AxisModes, ...]
) -> tuple[Tensor, tuple[AxisModes, ...]]:
    """The frequencies that both grids have, as kept on the target grid: band-limited interpolation."""
    cut, modes = [], []
    for a, b in zip(source, target, strict=True):
        first, end = max(a.first, b.first), min(a.first + a.count, b.first + b.count)
        cut.append(slice(first - a.first, end - a.first))
        modes.append(AxisModes(b.size, first, end - first, b.weight_start, b.shift))
    return x_hat[tuple(cut)], tuple(modes)
