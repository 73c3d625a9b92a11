"""Trained models that the certificates are checked on: each problem's medium recipe, one seed, resumable.

    python benchmarks/trained_models.py FOLDER [NAME ...]

Leaves FOLDER/data/*.h5 and a run directory FOLDER/NAME for each model; a second call goes on where the first stood.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from halfwave.data import generate
from halfwave.recipes import Recipe, get_recipe
from halfwave.training import TrainConfig, train

# name: recipe, and what differs from it.
MODELS: dict[str, tuple[str, dict]] = {
    "navier-stokes-fno": ("navier-stokes-medium", {"precision": "full"}),
    "darcy-fno": ("darcy-medium", {"precision": "full"}),
    "navier-stokes-tfno": (
        "navier-stokes-medium",
        {"precision": "full", "arguments": {"factorization": "cp", "rank": 0.1}, "epochs": 30},
    ),
    "shallow-water-sfno": ("shallow-water-medium", {"precision": "full", "epochs": 30}),
    "darcy-unet": ("darcy-unet-medium", {"precision": "full", "epochs": 40}),
    "car-gino": ("car-small", {"precision": "full", "epochs": 24}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names:
        recipe, changes = MODELS[name]
        result = _train(options.folder, name, get_recipe(recipe), dict(changes))
        print(f"{name:20} test L2 {result.l2:.4%}")


def _train(folder: Path, name: str, recipe: Recipe, changes: dict):
    data = folder / "data" / f"{recipe.name}.h5"
    data.parent.mkdir(parents=True, exist_ok=True)
    generate(recipe.build_generator(), data, n_train=recipe.n_train, n_test=recipe.n_test, seed=0)
    return train(TrainConfig.of(recipe, data, **changes), folder / name)


if __name__ == "__main__":
    main()
