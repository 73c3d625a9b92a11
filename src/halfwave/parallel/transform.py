"""ShardedTransform: the truncated transform of a field in pieces.

    v_hat(k) = Σ_processes Σ_{n in piece} A(k, n) v(n),      k kept,

is a local product with the columns of A that belong to the piece, and a sum over processes of the kept modes: nothing
of the size of the grid travels. Of the sum a process gets the modes that it has weights for, along the first mode axis
those that `torch.tensor_split` of the owned ones gives it. The way back gathers the modes and multiplies locally.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Format, run_linear
from halfwave.parallel.exchange import Gather, ScatterSum
from halfwave.parallel.pieces import Place, Span, split_sizes
from halfwave.spectral import (
    Backend,
    Engine,
    FourierTransform,
    Layout,
    SphericalTransform,
    add_at,
    analyse,
    synthesise,
)


@dataclass(frozen=True)
class ShardedTransform:
    """The transform `inner` of fields of which this process holds the piece of `place`.

    Spectra are this process's share: rows of the first mode axis. Weights are its own rows too (`sharded_weight`), or
    all of them, of which it uses its rows.
    """

    inner: FourierTransform | SphericalTransform
    place: Place = field(compare=False)
    sharded_weight: bool = True

    @property
    def n_modes(self) -> tuple[int, ...]:
        return self.inner.n_modes

    @property
    def max_n_modes(self) -> tuple[int, ...] | None:
        return self.inner.max_n_modes

    @property
    def backend(self) -> Backend:
        """Products, whatever a model in one process would take: an FFT needs a whole axis."""
        return "gemm"

    @property
    def layout(self) -> Layout:
        return self.inner.layout

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def weight_modes(self) -> tuple[int, ...]:
        return self.inner.weight_modes

    def forward(self, x: Tensor, arith: Arithmetic) -> Tensor:
        """The piece (B, C, *grid) to the own rows of its field's spectrum."""
        shares = analyse(x, self._engine, self.plan(tuple(x.shape[2:]), arith, x.device))
        return run_linear(ScatterSum(self.place.layout.ranks, self._counts(), arith), shares)

    def inverse(self, x_hat: Tensor, grid: tuple[int, ...], source: tuple[int, ...], arith: Arithmetic) -> Tensor:
        """Own rows of a spectrum to the piece (B, C, *grid) of the field."""
        if grid != source:
            raise ValueError(f"a field in pieces cannot be asked for on another grid: expected {source}, got {grid}")
        modes = run_linear(Gather(self.place.layout.ranks, self._counts(), arith), x_hat)
        return synthesise(modes, self._engine, self._plan("hermitian", arith, x_hat.device))

    def plan(self, grid: tuple[int, ...], arith: Arithmetic, device: torch.device) -> Any:
        """What the local product does; print it to see."""
        if grid != self.place.piece.grid:
            raise ValueError(f"expected a piece of {self.place.piece.grid} points, got {grid}")
        return self._plan("mean", arith, device)

    def _plan(self, weighting: Any, arith: Arithmetic, device: torch.device) -> Any:
        piece = self.place.piece
        return self.inner.piece_plan(piece.whole, piece.bounds, weighting, arith, device)

    @property
    def _engine(self) -> Engine:
        return self.inner.products

    def weight_slices(self, grid: tuple[int, ...]) -> tuple[slice, ...]:
        """Which of the weights that are here the own rows use."""
        first, *others = self.inner.weight_slices(self.place.piece.whole)
        own = self._owned(self.place.layout.ranks.rank)
        start, stop = _common(first, own)
        shift = own.start if self.sharded_weight else 0
        return (slice(start - shift, stop - shift), *others)

    def _owned(self, rank: int) -> Span:
        """Rows of the first mode axis whose weights belong to a process."""
        sizes = split_sizes(self.weight_modes[0], self.place.layout.ranks.size)
        start = sum(sizes[:rank])
        return Span(start, start + sizes[rank], self.weight_modes[0])

    def _counts(self) -> tuple[int, ...]:
        return self.counts_on(self.place.piece.whole)

    def counts_on(self, grid: tuple[int, ...]) -> tuple[int, ...]:
        """Rows of the modes kept on a whole grid that belong to each process."""
        first = self.inner.weight_slices(grid)[0]
        bounds = [_common(first, self._owned(rank)) for rank in range(self.place.layout.ranks.size)]
        counts = tuple(stop - start for start, stop in bounds)
        if not self.sharded_weight and 0 in counts:
            raise ValueError(
                f"{sum(counts)} modes along the first axis are too few for {len(counts)} processes: factorized weights "
                "need at least one in each"
            )
        return counts

    def half_fft(self, format: Format) -> bool:
        return False

    def add_constant(self, x_hat: Tensor, constant: Tensor, grid: tuple[int, ...]) -> Tensor | None:
        """Add a constant per channel to the field's mean, in the process that has its row."""
        where = self.inner.place_of_mean(x_hat, self.place.piece.whole)
        if where is None:
            return None
        assert isinstance(where[0], int)
        rank, counts = self.place.layout.ranks.rank, self._counts()
        row = where[0] - sum(counts[:rank])
        if 0 <= row < counts[rank]:
            return add_at(x_hat, (row, *where[1:]), constant)
        touched: Tensor = _Touch.apply(x_hat, constant)
        return touched


class _Touch(torch.autograd.Function):
    """x_hat, with a zero gradient for a parameter not used here: all processes sum up the gradients of all."""

    @staticmethod
    def forward(ctx: Any, x_hat: Tensor, constant: Tensor) -> Tensor:
        ctx.like = constant
        return x_hat.view_as(x_hat)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, torch.zeros_like(ctx.like)


def _common(window: slice, own: Span) -> tuple[int, int]:
    start = max(window.start, own.start)
    return start, max(start, min(window.stop, own.stop))
