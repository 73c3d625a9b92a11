"""Shapes: which sizes of a program's input are fixed and which are free, and the smallest grid that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from torch import nn

from halfwave.models import GridOperator, NeuralOperator
from halfwave.spectral import FourierTransform

FREE = ("batch", "grid")


@dataclass(frozen=True)
class Shapes:
    """The sizes of an input (B, C, *grid).

    Attributes:
        channels: C.
        grid: the grid that the program is made for, or one of them where grids are free.
        free_batch, free_grid: what the program takes any number of; a fixed batch is one sample.
        least: the fewest points of each axis that a free grid may have.
    """

    channels: int
    grid: tuple[int, ...]
    free_batch: bool
    free_grid: bool
    least: tuple[int, ...]

    @property
    def example(self) -> tuple[int, ...]:
        """An input to trace with: more than one sample where their number is free, as one would be taken for a rule."""
        return (2 if self.free_batch else 1, self.channels, *self.grid)

    @property
    def symbols(self) -> dict[int, str]:
        """Names of the free axes of the input."""
        axes = {0: "batch"} if self.free_batch else {}
        return axes | ({i + 2: f"n{i + 1}" for i in range(len(self.grid))} if self.free_grid else {})

    def probes(self) -> list[tuple[int, ...]]:
        """Inputs that show whether a program keeps its promises: other batches, other grids, odd and not square."""
        batches = (1, 5) if self.free_batch else (1,)
        grids = [self.grid, tuple(n + 1 + 2 * i for i, n in enumerate(self.grid))] if self.free_grid else [self.grid]
        return [(b, self.channels, *grid) for grid in grids for b in batches]

    def __str__(self) -> str:
        sizes = [str(self.channels), *map(str, self.grid)]
        free = self.symbols
        return " x ".join(free.get(axis, size) for axis, size in enumerate(["1", *sizes]))


def choose_shapes(model: NeuralOperator, grid: Sequence[int] | None, dynamic: Sequence[str]) -> Shapes:
    """The shapes asked for; ValueError, one line, for what the model cannot be exported with."""
    free = _check_free(dynamic)
    dim, channels = _sizes_of(model)
    free_grid = "grid" in free
    least = least_grid(model, dim) if free_grid else (1,) * dim
    if free_grid:
        _check_free_grid(model)
    if grid is None and not free_grid:
        raise ValueError(f"a program for one grid needs to know it: give grid=({', '.join(['n'] * dim)})")
    chosen = tuple(2 * n + 1 for n in least) if grid is None else _check_grid(grid, dim)
    if any(n < fewest for n, fewest in zip(chosen, least, strict=True)):
        raise ValueError(f"a program for free grids needs at least {_text(least)} points here, got {_text(chosen)}")
    return Shapes(channels, chosen, "batch" in free, free_grid, least)


def least_grid(model: nn.Module, dim: int) -> tuple[int, ...]:
    """The fewest points of each axis that have all modes of the model, padding included."""
    if not isinstance(model, GridOperator) or not _has_waves(model):
        return (2,) * dim
    wanted, padding = model.transform.weight_modes, model.padding
    if model.transform.max_n_modes is not None:
        wanted = (*model.n_modes[:-1], model.n_modes[-1] // 2 + 1)

    def enough(axis: int, n: int) -> bool:
        before, after = padding.widths((n,) * dim)[axis]
        size = n + before + after
        return (size if axis < dim - 1 else size // 2 + 1) >= wanted[axis]

    return tuple(next(n for n in count(2) if enough(axis, n)) for axis in range(dim))


def _has_waves(model: GridOperator) -> bool:
    """Whether its transform is Fourier's, whose matrices follow from sizes alone: a sphere's are tables."""
    return isinstance(model.transform, FourierTransform)


def _sizes_of(model: NeuralOperator) -> tuple[int, int]:
    dim, channels = getattr(model, "n_dim", None), getattr(model, "in_channels", None)
    if model.takes_points or not isinstance(dim, int) or not isinstance(channels, int):
        raise ValueError(
            f"a {type(model).__name__} cannot be exported: it searches the neighbours of points while it runs, which "
            "no runtime does; expected a model of fields on a grid (FNO, TFNO, SFNO, UNet)"
        )
    return dim, channels


def _check_free(dynamic: Sequence[str]) -> tuple[str, ...]:
    names = (dynamic,) if isinstance(dynamic, str) else tuple(dynamic)
    unknown = [name for name in names if name not in FREE]
    if unknown:
        raise ValueError(f"dynamic has {unknown[0]!r}: expected some of {', '.join(FREE)}")
    return names


def _check_free_grid(model: NeuralOperator) -> None:
    reason = None
    if isinstance(model, GridOperator) and not _has_waves(model):
        reason = "the Legendre functions of its latitudes are tables"
    elif isinstance(model, GridOperator) and model.transform.layout == "neuralop":
        reason = "layout 'neuralop' treats odd and even grids differently"
    elif isinstance(model, GridOperator) and any(factor != 1 for factor in model.scaling):
        reason = "its blocks scale the grid, which keeps other modes for every size"
    if reason is not None:
        raise ValueError(f"this {type(model).__name__} cannot have a free grid: {reason}; give one grid")


def _check_grid(grid: Sequence[int], dim: int) -> tuple[int, ...]:
    sizes = tuple(grid)
    if len(sizes) != dim or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise ValueError(f"grid must be {dim} positive sizes for this model, got {sizes!r}")
    return sizes


def _text(grid: tuple[int, ...]) -> str:
    return " x ".join(map(str, grid))
