"""The values that options take for a recipe, where nobody gives others: what --help shows."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from halfwave.data import Dataset
from halfwave.domains import name_of
from halfwave.models import CACHE_BYTES, MODELS
from halfwave.numerics import default_half
from halfwave.recipes import Recipe, recipes
from halfwave.training import LATENT_RESOLUTION, AnyDataset, TrainConfig

_THE_RECIPES = "the recipe's"
_OF_EVERY_RECIPE = ("data", "n_train", "n_test", "resolution", "arguments", "out")


def defaults_of_trainer(names: list[str]) -> dict[str, Any]:
    """Without a recipe: the trainer's own values, and which of them a recipe may set."""
    own = {name: TrainConfig.model_fields[name].get_default(call_default_factory=True) for name in names}
    set_by_some = {name for recipe in recipes() for name in recipe.training}
    return {**own, **dict.fromkeys((*set_by_some, *_OF_EVERY_RECIPE), _THE_RECIPES), "dtype": default_dtype()}


def defaults_of_config(config: TrainConfig, names: list[str]) -> dict[str, Any]:
    """The settings of a config, with what is taken where it leaves one open."""
    found = {name: getattr(config, name) for name in names}
    found |= {"dtype": config.dtype or default_dtype(), "arguments": config.arguments}
    takes = inspect.signature(MODELS[config.model]).parameters
    if "backend" in takes:
        found["backend"] = config.backend or config.arguments.get("backend", takes["backend"].default)
    if MODELS[config.model].takes_points:
        found["latent_resolution"] = config.latent_resolution or LATENT_RESOLUTION
        found["graph_cache"] = CACHE_BYTES >> 20 if config.graph_cache is None else config.graph_cache
    return found


def defaults_of_data(recipe: Recipe) -> dict[str, Any]:
    """Sizes and domain of the data that a recipe makes."""
    resolution = resolution_of(recipe)
    known = {"n_train": recipe.n_train, "n_test": recipe.n_test, "domain": name_of(recipe.domain)}
    return known | ({} if resolution is None else {"resolution": resolution})


def defaults_of_dataset(dataset: AnyDataset) -> dict[str, Any]:
    """Sizes and domain of data that are given."""
    known = {"n_train": dataset.n_train, "n_test": dataset.n_test, "domain": name_of(dataset.domain)}
    return known | ({"resolution": dataset.grid[0]} if isinstance(dataset, Dataset) else {})


def resolution_of(recipe: Recipe) -> int | None:
    """Points a side of a recipe's data, or of a body in all."""
    generator = recipe.build_generator()
    return getattr(generator, "resolution", getattr(generator, "points", None))


def batch_of(recipe: Recipe) -> int:
    """Samples of a batch of a recipe's training."""
    return int(recipe.training.get("batch_size", TrainConfig.model_fields["batch_size"].default))


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_dtype() -> str:
    """What half means on the device that would be taken."""
    return default_half(default_device()).name
