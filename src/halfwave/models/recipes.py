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
        live: whether it is made while training, new samples in each epoch, rather than once into a file.
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
    live: bool = False


# Radii of some two latent spacings: a point of the surface then has a dozen latent points or more around it.
_SMALL_GINO: Mapping[str, Any] = {
    "fno_n_modes": [8, 8, 8],
    "fno_hidden_channels": 24,
    "fno_n_layers": 3,
    "in_gno_radius": 0.12,
    "out_gno_radius": 0.12,
    "gno_embed_channels": 16,
    "in_gno_channel_mlp_hidden_layers": [32, 32],
    "out_gno_channel_mlp_hidden_layers": [64, 32],
    "out_gno_reduction": "mean",
}
_PAPER_GINO: Mapping[str, Any] = {
    "fno_n_modes": [16, 16, 16],
    "fno_hidden_channels": 64,
    "fno_n_layers": 4,
    "in_gno_radius": 0.033,
    "out_gno_radius": 0.033,
}

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
        n_train=120,
        n_test=20,
        # The fields are normalised by the law that they are drawn from.
        training={"epochs": 20, "batch_size": 8, "learning_rate": 2e-3, "loss": "l2", "normalise": False},
        live=True,
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
        training={"epochs": 300, "batch_size": 4, "learning_rate": 1e-3, "loss": "l2", "normalise": False},
        live=True,
    ),
    Recipe(
        name="navier-stokes",
        title="Navier-Stokes 64x64, a small TFNO: minutes",
        model="TFNO",
        arguments={"n_modes": [32, 32], "hidden_channels": 32, "n_layers": 4, "factorization": "cp", "rank": 0.1},
        generator="navier-stokes",
        parameters={"resolution": 64},
        n_train=400,
        n_test=80,
        training={"epochs": 20, "batch_size": 8, "learning_rate": 2e-3, "loss": "h1"},
    ),
    Recipe(
        name="navier-stokes-paper",
        title="Navier-Stokes 128x128 at the paper's size: 10,000 samples",
        model="TFNO",
        arguments={"n_modes": [64, 64], "hidden_channels": 64, "n_layers": 4, "factorization": "cp", "rank": 0.05},
        generator="navier-stokes",
        parameters={"resolution": 128},
        n_train=10_000,
        n_test=2000,
        training={"epochs": 300, "batch_size": 8, "learning_rate": 1e-3, "loss": "h1"},
    ),
    Recipe(
        name="car",
        title="pressure on cars, 1,000 points, a small GINO: minutes",
        model="GINO",
        arguments=_SMALL_GINO,
        generator="car",
        parameters={"points": 1000},
        n_train=100,
        n_test=20,
        training={"epochs": 30, "batch_size": 4, "learning_rate": 4e-3, "latent_resolution": 16},
    ),
    Recipe(
        name="car-paper",
        title="cars at the paper's size: 3,586 points, latent 64^3",
        model="GINO",
        arguments=_PAPER_GINO,
        generator="car",
        parameters={"points": 3586},
        n_train=500,
        n_test=111,
        training={"epochs": 300, "batch_size": 1, "learning_rate": 1e-3, "latent_resolution": 64},
    ),
    Recipe(
        name="ahmed",
        title="pressure on Ahmed bodies, 1,000 points, a small GINO: minutes",
        model="GINO",
        arguments=_SMALL_GINO,
        generator="ahmed",
        parameters={"points": 1000},
        n_train=100,
        n_test=20,
        training={
            "epochs": 30,
            "batch_size": 4,
            "learning_rate": 4e-3,
            "latent_resolution": 16,
            "features": ["velocity"],
        },
    ),
    Recipe(
        name="ahmed-paper",
        title="Ahmed bodies at the paper's size: 100,000 points, latent 64^3",
        model="GINO",
        arguments=_PAPER_GINO,
        generator="ahmed",
        parameters={"points": 100_000},
        n_train=500,
        n_test=51,
        training={
            "epochs": 300,
            "batch_size": 1,
            "learning_rate": 1e-3,
            "latent_resolution": 64,
            "features": ["velocity"],
        },
    ),
)

RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _ALL})


def get_recipe(name: str) -> Recipe:
    """The recipe called `name`; ValueError with the accepted names otherwise."""
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}: expected one of {', '.join(RECIPES)}")
    return RECIPES[name]
