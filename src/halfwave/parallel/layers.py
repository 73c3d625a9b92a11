"""What the layers of a model do with a piece of a field that is not pointwise: coordinates, padding, means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from halfwave.models import DomainPadding, PositionalEmbedding
from halfwave.numerics import run_linear
from halfwave.parallel.exchange import SumOver
from halfwave.parallel.pieces import Piece, Place


class PieceEmbedding(nn.Module):
    """An embedding that gives the points of a piece the coordinates that they have in the whole grid."""

    def __init__(self, embedding: PositionalEmbedding, place: Place) -> None:
        super().__init__()
        self.embedding, self.place = embedding, place

    def forward(self, x: Tensor) -> Tensor:
        piece = self.place.piece
        axes = self.embedding.axes(x, piece.whole)
        own = [axis[start:stop] for axis, (start, stop) in zip(axes, piece.bounds, strict=True)]
        return self.embedding.append(x, own)


@dataclass(frozen=True)
class PiecePadding:
    """Domain padding: its zeros go to the pieces at the ends of an axis, and no point moves to another process."""

    padding: DomainPadding
    place: Place

    def pad(self, v: Tensor) -> Tensor:
        """The piece of the field to that of the padded field."""
        widths = self._own_widths()
        self.place.piece = self._padded()
        if not any(before or after for before, after in widths):
            return v
        return nn.functional.pad(v, [width for pair in reversed(widths) for width in pair])

    def unpad(self, v: Tensor, grid: tuple[int, ...], factors: Sequence[float] | None = None) -> Tensor:
        """Back again: blocks in pieces keep their grid, so `factors` are 1.

        The place stays the padded one: blocks that recompute in the backward pass find it as it was.
        """
        for axis, (before, after) in enumerate(self._own_widths(), start=2):
            v = v.narrow(axis, before, v.shape[axis] - before - after) if before or after else v
        return v

    def _own_widths(self) -> list[tuple[int, int]]:
        piece = self._unpadded
        pairs = zip(piece.spans, self.padding.widths(piece.whole), strict=True)
        return [
            (before if span.start == 0 else 0, after if span.stop == span.size else 0)
            for span, (before, after) in pairs
        ]

    def _padded(self) -> Piece:
        piece = self._unpadded
        pairs = zip(piece.spans, self.padding.widths(piece.whole), strict=True)
        return Piece(tuple(span.padded(*widths) for span, widths in pairs))

    @property
    def _unpadded(self) -> Piece:
        return self.place.field_piece


@dataclass(frozen=True)
class PieceMean:
    """Means over the points of the whole grid, from those of a piece."""

    place: Place

    def __call__(self, rows: Tensor) -> Tensor:
        piece = self.place.piece
        count = rows.shape[-1] // prod(piece.grid) * prod(piece.whole)
        return run_linear(SumOver(self.place.layout.ranks), rows.sum(-1, keepdim=True)) / count
