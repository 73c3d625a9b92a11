"""A recipe for everybody's problem: the model by its family, the settings from the data.

Modes follow from the grid, padding from the domain, the width from the dimension, the batch from the number of samples.
They are a good start and not the best: every one can be changed by an option.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from halfwave.data import Dataset, PointDataset
from halfwave.domains import Domain, Sphere
from halfwave.errors import InputError
from halfwave.recipes.recipe import DataFacts, Recipe

AnyDataset = Dataset | PointDataset
Arguments = dict[str, Any]

_MOST_MODES = {1: 64, 2: 32, 3: 16}
_WIDTH = {1: 64, 2: 32, 3: 20}
_PADDING = 0.125
"""Of the grid, on a side without neighbours beyond it: a periodic transform would join the two ends."""
_UPDATES = 40
"""In an epoch, about: batches are of up to 16 samples, and smaller where the samples are few."""


def general_recipe(family: str, dataset: AnyDataset) -> Recipe:
    """The recipe `family` (one of `GENERAL`) for this data; InputError where such a model does not take it."""
    if family not in GENERAL:
        raise InputError(f"unknown family {family!r}: expected one of {', '.join(GENERAL)}")
    model, build = GENERAL[family]
    if isinstance(dataset, PointDataset) != (family == "gino"):
        holds = "point clouds: expected gino" if isinstance(dataset, PointDataset) else "fields on a grid"
        raise InputError(f"{family} is not for {dataset.path}, which holds {holds}")
    arguments = build(dataset)
    training: Arguments = {
        "epochs": 50,
        "batch_size": max(1, min(16, dataset.n_train // _UPDATES)),
        "learning_rate": 1e-3 if family == "unet" else 2e-3,
    }
    recipe = Recipe(family, f"{model} with settings from the data", model, arguments, "", {}, 0, 0, training)
    return recipe_for(recipe, dataset)


def recipe_for(recipe: Recipe, dataset: AnyDataset) -> Recipe:
    """The recipe on other data than its own: its model, the shapes and the domain of the data."""
    counted = replace(recipe, n_train=dataset.n_train, n_test=dataset.n_test)
    if isinstance(dataset, PointDataset):
        return replace(counted, facts=DataFacts((), (), dataset.domain))
    channels_in, channels_out = dataset.model_channels
    grid = dataset.grid
    return replace(counted, facts=DataFacts((channels_in, *grid), (channels_out, *grid), dataset.domain))


def _fno(dataset: AnyDataset) -> Arguments:
    grid, domain = _grid(dataset, "fno")
    padding = [0.0 if periodic else _PADDING for periodic in domain.periodic]
    settings: Arguments = {"n_modes": fitting_modes(grid), "hidden_channels": _WIDTH[len(grid)], "n_layers": 4}
    return settings | ({"domain_padding": padding} if any(padding) else {})


def _tfno(dataset: AnyDataset) -> Arguments:
    return {**_fno(dataset), "factorization": "tucker", "rank": 0.42}


def _sfno(dataset: AnyDataset) -> Arguments:
    grid, domain = _grid(dataset, "sfno")
    if not isinstance(domain, Sphere):
        raise InputError(f"sfno is for fields on a sphere: {dataset.path} is on a {domain} (--domain sphere)")
    modes = min(_MOST_MODES[2], grid[0])
    return {"n_modes": [modes, modes], "hidden_channels": 32, "n_layers": 4, "sht_grids": domain.points}


def _unet(dataset: AnyDataset) -> Arguments:
    grid, _ = _grid(dataset, "unet")
    if len(grid) != 2:
        raise InputError(f"unet is for fields on two axes: {dataset.path} has {len(grid)}")
    halvings = min(min(_halvings(n), int(math.log2(n / 4))) for n in grid)
    return {"hidden_channels": 16, "n_levels": max(1, min(4, halvings))}


def _gino(dataset: AnyDataset) -> Arguments:
    """Radii of some two spacings of the latent grid: a point of the surface then has a dozen latent points around."""
    return {
        "fno_n_modes": [8, 8, 8],
        "fno_hidden_channels": 24,
        "fno_n_layers": 4,
        "in_gno_radius": 0.12,
        "out_gno_radius": 0.12,
        "gno_embed_channels": 16,
        "in_gno_channel_mlp_hidden_layers": [32, 32],
        "out_gno_channel_mlp_hidden_layers": [64, 32],
        "out_gno_reduction": "mean",
    }


def fitting_modes(grid: tuple[int, ...]) -> list[int]:
    """Half of the points along each axis, an even number, and no more than a grid of many points needs."""
    most = _MOST_MODES[len(grid)]
    return [max(2, min(most, n // 2) // 2 * 2) for n in grid]


def _grid(dataset: AnyDataset, family: str) -> tuple[tuple[int, ...], Domain]:
    if isinstance(dataset, PointDataset):
        raise InputError(f"{family} is for fields on a grid: {dataset.path} holds point clouds")
    return dataset.grid, dataset.domain


def _halvings(n: int) -> int:
    """How often a number can be halved."""
    return (n & -n).bit_length() - 1


GENERAL: Mapping[str, tuple[str, Callable[[AnyDataset], Arguments]]] = {
    "fno": ("FNO", _fno),
    "tfno": ("TFNO", _tfno),
    "sfno": ("SFNO", _sfno),
    "gino": ("GINO", _gino),
    "unet": ("UNet", _unet),
}
"""Families by their names on the command line: the class, and its arguments for a dataset."""
