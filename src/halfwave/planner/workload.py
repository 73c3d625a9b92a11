"""Workload: a model without memory and the shape of its input for every batch, of a recipe or of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from halfwave.errors import InputError
from halfwave.models import build_model
from halfwave.recipes import Recipe, get_recipe


@dataclass(frozen=True)
class Workload:
    """A model, and `inputs(batch)`: what `plan_memory` takes for a batch of that many samples."""

    model: nn.Module
    inputs: Callable[[int], Any]


def recipe_workload(
    recipe: str | Recipe, grid: int | None = None, arguments: Mapping[str, Any] | None = None
) -> Workload:
    """The recipe's model on `meta` and its fields, on the recipe's grid or on one with `grid` points a side."""
    chosen = recipe if isinstance(recipe, Recipe) else get_recipe(recipe)
    if not chosen.domain.has_grid:
        raise InputError(
            f"recipe {chosen.name!r} has point clouds, whose memory depends on their points: plan it with "
            f"halfwave.planner.plan_memory and real coordinates"
        )
    x_shape, y_shape = chosen.sample_shapes(_check_side(grid))
    given = {"in_channels": x_shape[0], "out_channels": y_shape[0], **chosen.arguments, **(arguments or {})}
    with torch.device("meta"):
        model = build_model(chosen.model, given)
    return Workload(model, lambda batch: (_check_batch(batch), given["in_channels"], *x_shape[1:]))


def recipe_grid(recipe: Recipe, grid: int | None = None) -> tuple[int, ...]:
    """Points along each axis of a recipe's fields, or of such fields with `grid` points a side."""
    return recipe.sample_shapes(_check_side(grid))[0][1:]


def _check_side(grid: int | None) -> int | None:
    if grid is not None and grid < 4:
        raise InputError(f"a grid of {grid} points a side is too small: expected at least 4")
    return grid


def as_workload(what: str | Recipe | nn.Module | Workload, sample: Any = None, grid: int | None = None) -> Workload:
    """`what` as work: of a module with the shape of one sample (C, *grid), or a function from batch to inputs."""
    if isinstance(what, Workload):
        return what
    if not isinstance(what, nn.Module):
        return recipe_workload(what, grid)
    if sample is None:
        raise InputError("a model alone has no grid: expected sample=(channels, *grid) or a function of the batch")
    if callable(sample):
        return Workload(what, sample)
    shape = tuple(sample)
    return Workload(what, lambda batch: (_check_batch(batch), *shape))


def _check_batch(batch: int) -> int:
    if not isinstance(batch, int) or batch < 1:
        raise InputError(f"batch must be at least 1, got {batch!r}")
    return batch
