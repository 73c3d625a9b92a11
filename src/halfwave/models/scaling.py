"""Resolution scaling: how much finer or coarser each block of a model leaves the grid that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from halfwave.models.arguments import check_counts

Factor = float | Sequence[float]
Factors = tuple[float, ...]
"""One factor for each axis of the grid."""


_MOST = 64
"""A block that refines a grid by more would fill any memory."""


def layer_factors(given: float | Sequence[Factor] | None, n_layers: int, dim: int) -> list[Factors | None]:
    """The factors of every block: none, one number for all, one per block, or for each block one per axis."""
    check_counts(n_layers=n_layers)
    if given is None:
        return [None] * n_layers
    layers = list(given) if isinstance(given, Sequence) else [given] * n_layers
    factors = [tuple(f) if isinstance(f, Sequence) else (f,) * dim for f in layers]
    if len(factors) != n_layers or any(len(f) != dim or not all(_positive(x) for x in f) for f in factors):
        raise ValueError(
            f"resolution_scaling_factor must be a positive number, {n_layers} of them (one per block), or {n_layers} "
            f"lists of {dim}, none above {_MOST}; got {given!r}"
        )
    return list(factors)


def scaled_grid(grid: tuple[int, ...], factors: Factors | None) -> tuple[int, ...]:
    """The grid that a block with these factors answers on."""
    return grid if factors is None else tuple(round(n * f) for n, f in zip(grid, factors, strict=True))


def total_factors(layers: Sequence[Factors | None], dim: int) -> Factors:
    """What all blocks together do to each axis."""
    return tuple(prod(1.0 if factors is None else factors[axis] for factors in layers) for axis in range(dim))


def layer_shapes(
    output_shape: tuple[int, ...] | Sequence[tuple[int, ...] | None] | None, n_layers: int, dim: int
) -> list[tuple[int, ...] | None]:
    """The grid asked of every block: a tuple is the last one's, a list has one (or None) for each."""
    if output_shape is None:
        return [None] * n_layers
    shapes = [None] * (n_layers - 1) + [output_shape] if isinstance(output_shape, tuple) else list(output_shape)
    if len(shapes) != n_layers or not all(shape is None or _is_grid(shape, dim) for shape in shapes):
        raise ValueError(
            f"output_shape must be a tuple of {dim} sizes, or a list of {n_layers} such tuples, got {output_shape!r}"
        )
    return [None if shape is None else tuple(shape) for shape in shapes]


def _is_grid(shape: object, dim: int) -> bool:
    return isinstance(shape, Sequence) and len(shape) == dim and all(isinstance(n, int) and n > 0 for n in shape)


def _positive(number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 < number <= _MOST
