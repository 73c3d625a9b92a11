"""Recipes: a problem, a model and training settings that go together, by name.

A recipe is plain data, so that the trainer, the planner and the command line read the same one. `training` holds
fields of the trainer's config; `data` names a generator with its parameters and the number of samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """What `halfwave train NAME` runs.

    Attributes:
        name: on the command line.
        title: one line for lists.
        model, arguments: class and constructor arguments; channels follow the data.
        generator, parameters: who makes the data when no file is given.
        n_train, n_test: samples of that data.
        training: settings of the trainer that differ from its defaults.
    """

    name: str
    title: str
    model: str
    arguments: Mapping[str, Any]
    generator: str
    parameters: Mapping[str, Any]
    n_train: int
    n_test: int
    training: Mapping[str, Any] = field(default_factory=dict)


_ALL = (
    Recipe(
        name="demo",
        title="what `halfwave demo` trains: Darcy 64x64, a small FNO",
        model="FNO",
        arguments={"n_modes": [24, 24], "hidden_channels": 32, "n_layers": 4},
        generator="darcy",
        parameters={"resolution": 64},
        n_train=400,
        n_test=80,
        training={"epochs": 10, "batch_size": 32, "learning_rate": 5e-3, "loss": "l2"},
    ),
    Recipe(
        name="darcy",
        title="Darcy 64x64, 32 modes, 32 channels: minutes",
        model="FNO",
        arguments={"n_modes": [32, 32], "hidden_channels": 32, "n_layers": 4},
        generator="darcy",
        parameters={"resolution": 64},
        n_train=1000,
        n_test=200,
        training={"epochs": 20, "batch_size": 16, "learning_rate": 2e-3, "loss": "h1"},
    ),
    Recipe(
        name="darcy-paper",
        title="Darcy 128x128 at the paper's size: 5,000 samples",
        model="FNO",
        arguments={"n_modes": [64, 64], "hidden_channels": 64, "n_layers": 4},
        generator="darcy",
        parameters={"resolution": 128},
        n_train=5000,
        n_test=1000,
        training={"epochs": 300, "batch_size": 16, "learning_rate": 1e-3, "loss": "h1"},
    ),
    Recipe(
        name="navier-stokes-paper",
        title="Navier-Stokes 128x128 at the paper's size: 10,000 samples, CP weights",
        model="TFNO",
        arguments={
            "n_modes": [64, 64],
            "hidden_channels": 64,
            "n_layers": 4,
            "projection_channel_ratio": 4,
            "factorization": "cp",
            "rank": 0.1,
        },
        generator="navier-stokes",
        parameters={"resolution": 128},
        n_train=10_000,
        n_test=2000,
        training={"epochs": 500, "batch_size": 8, "learning_rate": 3e-4, "loss": "h1"},
    ),
    Recipe(
        name="darcy-unet",
        title="Darcy 64x64, the U-Net of the paper's comparison",
        model="UNet",
        arguments={"hidden_channels": 16, "n_levels": 4},
        generator="darcy",
        parameters={"resolution": 64},
        n_train=1000,
        n_test=200,
        training={"epochs": 20, "batch_size": 16, "learning_rate": 1e-3, "loss": "l2"},
    ),
    Recipe(
        name="shallow-water",
        title="shallow water on the sphere, 32x64, a small SFNO: minutes",
        model="SFNO",
        arguments={"n_modes": [32, 64], "hidden_channels": 32, "n_layers": 4},
        generator="shallow-water",
        parameters={"resolution": 32},
        n_train=200,
        n_test=40,
        training={"epochs": 20, "batch_size": 8, "learning_rate": 2e-3, "loss": "l2"},
    ),
    Recipe(
        name="shallow-water-paper",
        title="shallow water 256x512 at the paper's size",
        model="SFNO",
        arguments={"n_modes": [256, 256], "hidden_channels": 32, "n_layers": 4},
        generator="shallow-water",
        parameters={"resolution": 256},
        n_train=120,
        n_test=20,
        training={"epochs": 300, "batch_size": 4, "learning_rate": 1e-3, "loss": "l2"},
    ),
)

RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _ALL})


def get_recipe(name: str) -> Recipe:
    """The recipe called `name`; ValueError with the accepted names otherwise."""
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}: expected one of {', '.join(RECIPES)}")
    return RECIPES[name]
