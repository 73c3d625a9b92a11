"""Positional embeddings: coordinates of the grid points, or sines of them, as extra channels of a field.

Point j of N along an axis with boundaries [a, b] has the coordinate a + (b - a) j/N, as in neuraloperator: b itself is
the next period's a. An embedding has no parameters, computes in the dtype of the field, and records itself as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.models.sinusoidal import CoordinateEmbedding

Boundaries = Sequence[Sequence[float]]


class GridEmbedding(nn.Module):
    """Appends the coordinates: (B, C, *grid) to (B, C + d, *grid).

    Args:
        grid_boundaries: (start, end) of each axis; None for [0, 1] along every axis.
    """

    def __init__(self, grid_boundaries: Boundaries | None = None) -> None:
        super().__init__()
        self.grid_boundaries = _check_boundaries(grid_boundaries)

    def channels(self, dim: int) -> int:
        """How many channels it appends on a grid with `dim` axes."""
        _check_axes(self.grid_boundaries, dim)
        return dim

    def forward(self, x: Tensor) -> Tensor:
        grid = x.shape[2:]
        return torch.cat([x, *(c.expand(x.shape[0], 1, *grid) for c in self.coordinates(x))], dim=1)

    def coordinates(self, x: Tensor) -> list[Tensor]:
        """One field (*grid) of coordinates for each axis of the grid of `x`."""
        return _coordinates(x, self.grid_boundaries)

    def settings(self) -> dict[str, Any]:
        """JSON from which `build_embedding` makes it again."""
        return {"kind": "grid", "grid_boundaries": _as_lists(self.grid_boundaries)}

    def extra_repr(self) -> str:
        return "" if self.grid_boundaries is None else f"grid_boundaries={self.grid_boundaries}"


class SinusoidalEmbedding(nn.Module):
    """Appends sines and cosines of the coordinates at L frequencies: (B, C, *grid) to (B, C + 2 L d, *grid).

    Args:
        num_frequencies: L.
        embedding_type: ``"transformer"`` or ``"nerf"``, see `sinusoidal`.
        max_positions: P of the transformer's frequencies.
        grid_boundaries: as in `GridEmbedding`.
    """

    def __init__(
        self,
        num_frequencies: int = 4,
        embedding_type: str = "nerf",
        max_positions: int = 10000,
        grid_boundaries: Boundaries | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(num_frequencies, int) or num_frequencies < 1:
            raise ValueError(f"num_frequencies must be a positive integer, got {num_frequencies!r}")
        if embedding_type not in ("transformer", "nerf"):
            raise ValueError(f"unknown embedding_type {embedding_type!r}: expected 'transformer' or 'nerf'")
        self.num_frequencies, self.embedding_type = num_frequencies, embedding_type
        self.max_positions = max_positions
        self.grid_boundaries = _check_boundaries(grid_boundaries)

    def channels(self, dim: int) -> int:
        """How many channels it appends on a grid with `dim` axes."""
        _check_axes(self.grid_boundaries, dim)
        return 2 * self.num_frequencies * dim

    def forward(self, x: Tensor) -> Tensor:
        grid = x.shape[2:]
        points = torch.stack(_coordinates(x, self.grid_boundaries), dim=-1).flatten(0, -2)
        embed = CoordinateEmbedding(len(grid), self.embedding_type, self.num_frequencies, self.max_positions)
        waves = embed(points).T.reshape(1, -1, *grid)
        return torch.cat([x, waves.expand(x.shape[0], *waves.shape[1:])], dim=1)

    def settings(self) -> dict[str, Any]:
        """JSON from which `build_embedding` makes it again."""
        return {
            "kind": "sinusoidal",
            "num_frequencies": self.num_frequencies,
            "embedding_type": self.embedding_type,
            "max_positions": self.max_positions,
            "grid_boundaries": _as_lists(self.grid_boundaries),
        }

    def extra_repr(self) -> str:
        return f"{self.num_frequencies}, {self.embedding_type}, grid_boundaries={self.grid_boundaries}"


PositionalEmbedding = GridEmbedding | SinusoidalEmbedding
_KINDS: dict[str, type[PositionalEmbedding]] = {"grid": GridEmbedding, "sinusoidal": SinusoidalEmbedding}


def build_embedding(given: str | Mapping[str, Any] | PositionalEmbedding | None) -> PositionalEmbedding | None:
    """The embedding itself, or the one that its short name or its recorded settings stand for."""
    if given is None or isinstance(given, (GridEmbedding, SinusoidalEmbedding)):
        return given
    settings = {"kind": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    kind = settings.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(
            f"unknown positional_embedding {given!r}: expected {', '.join(map(repr, _KINDS))}, a GridEmbedding, "
            "a SinusoidalEmbedding or None"
        )
    try:
        return _KINDS[kind](**settings)
    except TypeError as error:
        raise ValueError(f"positional_embedding {given!r}: {error}") from error


def _coordinates(x: Tensor, boundaries: tuple[tuple[float, float], ...] | None) -> list[Tensor]:
    grid = x.shape[2:]
    axes = [torch.arange(n, device=x.device, dtype=x.dtype) / n for n in grid]
    if boundaries is not None:
        axes = [start + (end - start) * axis for axis, (start, end) in zip(axes, boundaries, strict=True)]
    return list(torch.meshgrid(*axes, indexing="ij"))


def _check_boundaries(given: Boundaries | None) -> tuple[tuple[float, float], ...] | None:
    if given is None:
        return None
    try:
        return tuple((float(start), float(end)) for start, end in given)
    except (TypeError, ValueError):
        raise ValueError(f"grid_boundaries must be (start, end) for each axis, got {given!r}") from None


def _check_axes(boundaries: tuple[tuple[float, float], ...] | None, dim: int) -> None:
    if boundaries is not None and len(boundaries) != dim:
        raise ValueError(f"grid_boundaries has {len(boundaries)} axes and the grid {dim}: expected one pair for each")


def _as_lists(boundaries: tuple[tuple[float, float], ...] | None) -> list[list[float]] | None:
    return None if boundaries is None else [list(pair) for pair in boundaries]
