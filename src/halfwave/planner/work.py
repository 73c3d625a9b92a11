"""Work: a model without memory and the shape of its input for every batch, of a recipe or of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from halfwave.errors import InputError
from halfwave.models import build_model
from halfwave.recipes import Recipe, get_recipe

# Channels in and out of the generators' fields.
_CHANNELS = {"darcy": (1, 1), "navier-stokes": (1, 1), "shallow-water": (3, 3)}


@dataclass(frozen=True)
class Work:
    """A model, and `inputs(batch)`: what `plan_memory` takes for a batch of that many samples."""

    model: nn.Module
    inputs: Callable[[int], Any]


def recipe_work(recipe: str | Recipe, grid: int | None = None, arguments: Mapping[str, Any] | None = None) -> Work:
    """The recipe's model on `meta` and its fields, on the recipe's grid or on one with `grid` points a side."""
    chosen = find_recipe(recipe)
    if chosen.generator not in _CHANNELS:
        raise InputError(
            f"recipe {chosen.name!r} has point clouds, whose memory depends on their points: plan it with "
            f"halfwave.planner.plan_memory and real coordinates"
        )
    channels = _CHANNELS[chosen.generator]
    given = {"in_channels": channels[0], "out_channels": channels[1], **chosen.arguments, **(arguments or {})}
    with torch.device("meta"):
        model = build_model(chosen.model, given)
    shape = recipe_grid(chosen, grid)
    return Work(model, lambda batch: (_check_batch(batch), given["in_channels"], *shape))


def recipe_grid(recipe: Recipe, grid: int | None = None) -> tuple[int, ...]:
    """Points along each axis: of a square, or of a sphere with `grid` latitudes."""
    side = int(recipe.parameters.get("resolution", 128)) if grid is None else grid
    if side < 4:
        raise InputError(f"a grid of {side} points a side is too small: expected at least 4")
    if recipe.generator == "shallow-water":
        return (side, 2 * side)
    return (side,) * int(recipe.parameters.get("dim", 2))


def find_recipe(recipe: str | Recipe) -> Recipe:
    """The recipe, or the one with this name; InputError with the known names otherwise."""
    if isinstance(recipe, Recipe):
        return recipe
    try:
        return get_recipe(recipe)
    except ValueError as error:
        raise InputError(str(error)) from None


def as_work(what: str | Recipe | nn.Module | Work, sample: Any = None, grid: int | None = None) -> Work:
    """`what` as work: of a module with the shape of one sample (C, *grid), or a function from batch to inputs."""
    if isinstance(what, Work):
        return what
    if not isinstance(what, nn.Module):
        return recipe_work(what, grid)
    if sample is None:
        raise InputError("a model alone has no grid: expected sample=(channels, *grid) or a function of the batch")
    if callable(sample):
        return Work(what, sample)
    shape = tuple(sample)
    return Work(what, lambda batch: (_check_batch(batch), *shape))


def _check_batch(batch: int) -> int:
    if not isinstance(batch, int) or batch < 1:
        raise InputError(f"batch must be at least 1, got {batch!r}")
    return batch
