"""Fields in pieces: the figures of whole ones, and whole ones where there is no other way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from halfwave.parallel.pieces import GridLayout, Piece
from halfwave.parallel.ranks import Ranks


@dataclass(frozen=True)
class FieldPiece:
    """This process's piece of the fields on a whole grid."""

    layout: GridLayout
    grid: tuple[int, ...]

    @property
    def piece(self) -> Piece:
        return self.layout.piece_of(self.grid)

    def cut(self, whole: Tensor) -> Tensor:
        """The piece of a whole field, or of what is broadcast to one."""
        return self.piece.cut(whole)

    def largest(self, figures: Tensor) -> Tensor:
        """The maximum of everybody's figures, which have no gradient here."""
        return self.layout.ranks.largest(figures.detach())

    def norms(self, figures: Tensor) -> Tensor:
        """Everybody's figures (B,), one row for each process: (P, B).

        For a loss, which every process makes of all of them in the same way: a process has the gradient of its own row.
        """
        rows: Tensor = _OwnRow.apply(figures, self.layout.ranks)
        return rows

    def of_whole(self, u: Tensor, function: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """`function` of whole fields, cut to the piece: one sample at a time, so that no more than one is whole."""
        samples = [[self.cut(part) for part in function(self.whole(sample[None]))] for sample in u]
        return tuple(torch.cat(parts) for parts in zip(*samples, strict=True))

    def whole(self, u: Tensor) -> Tensor:
        """(B, C, *piece) to (B, C, *grid), in every process; without a gradient."""
        ranks, leading = self.layout.ranks, u.shape[:2]
        pieces = [self._piece_of(rank) for rank in range(ranks.size)]
        counts = [prod(leading) * prod(piece.grid) for piece in pieces]
        flat = ranks.collect(u.detach().contiguous().view(-1), counts, "fields").split(counts)
        whole = u.new_empty((*leading, *self.grid))
        for piece, values in zip(pieces, flat, strict=True):
            piece.cut(whole).copy_(values.view(*leading, *piece.grid))
        return whole

    def _piece_of(self, rank: int) -> Piece:
        return GridLayout.planned(self.layout.shape, self.layout.axes, self.grid, rank).piece_of(self.grid)


class _OwnRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, figures: Tensor, ranks: Ranks) -> Tensor:
        ctx.rank = ranks.rank
        return ranks.collect(figures[None], [1] * ranks.size, "sums")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad[ctx.rank], None
