"""Trained models that the certificates are checked on: those of examples/models, and four that are trained here.

    python benchmarks/trained_models.py FOLDER [NAME ...]

Leaves FOLDER/data/*.h5 and a run directory FOLDER/NAME for each model; a second call goes on where the first stood. A
model of examples/models gets an epoch on a few samples at a rate that moves nothing: its run then has its test error.
Some ten minutes of one core in all.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from halfwave.data import generate
from halfwave.recipes import get_recipe
from halfwave.training import TrainConfig, initial_model, train

ROOT = Path(__file__).resolve().parents[1]
STILL = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-12, "weight_decay": 0.0, "augment": (), "precision": "full"}


@dataclass(frozen=True)
class Model:
    """A recipe, what differs from it, and how many samples are made (train, test)."""

    recipe: str
    changes: Mapping[str, Any]
    samples: tuple[int, int]
    data: Mapping[str, Any] = field(default_factory=dict)
    """Of the generator, where the published model is of other data than the recipe of today."""


def _published(name: str, recipe: str, **data: Any) -> Model:
    start = ROOT / "examples" / "models" / name / "model.safetensors"
    return Model(recipe, {**STILL, "init_from": str(start)}, (32, 80), data)


MODELS = {
    "navier-stokes-fno": Model("navier-stokes-medium", {"precision": "full"}, (800, 100)),
    "darcy-fno": Model("darcy-medium", {"precision": "full", "epochs": 15}, (800, 100)),
    "car-gino": Model("car-small", {"precision": "full", "epochs": 24}, (64, 48)),
    "car-gino-own-box": Model("car-medium", {"precision": "full", "epochs": 6}, (320, 48)),
    "navier-stokes-tfno": _published("navier-stokes-tfno", "navier-stokes-medium", time=1.0),
    "shallow-water-sfno": _published("shallow-water-sfno", "shallow-water-medium"),
    "darcy-unet": _published("darcy-unet", "darcy-unet-medium", high=4.5, low=3.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names:
        result = _train(options.folder, name, MODELS[name])
        print(f"{name:20} test L2 {result.l2:.4%}", flush=True)


def _train(folder: Path, name: str, model: Model):
    recipe = get_recipe(model.recipe)
    recipe = replace(recipe, parameters={**recipe.parameters, **model.data})
    if "init_from" in model.changes:
        built, arguments = initial_model(model.changes["init_from"])
        recipe = replace(recipe, model=built, arguments=arguments)
    data = folder / "data" / f"{name}.h5"
    data.parent.mkdir(parents=True, exist_ok=True)
    n_train, n_test = model.samples
    generate(recipe.build_generator(), data, n_train=n_train, n_test=n_test, seed=0)
    return train(TrainConfig.of(recipe, data, **model.changes), folder / name)


if __name__ == "__main__":
    main()
