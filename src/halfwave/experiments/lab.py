"""Lab: datasets and trainings of a results directory, each made once and shared by all experiments.

DIRECTORY/.data/   dataset files, named after what made them
DIRECTORY/.runs/   run directories of the trainer, named after their settings; an interrupted one resumes
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from halfwave.data import build_generator, generate
from halfwave.files import read_json, write_json
from halfwave.numerics import core_count
from halfwave.recipes import HALF, Recipe
from halfwave.training import (
    FREE_ON_RESUME,
    AnyDataset,
    NonFiniteError,
    RunResult,
    TrainConfig,
    compare_steps,
    load,
    open_data,
    read_metrics,
    train,
)

# Raised with every change of the library that changes results: what an older version made is then made again.
RESULTS_VERSION = 1


@dataclass(frozen=True)
class Training:
    """One training: a problem, a precision, a seed, and fields of `TrainConfig` that differ from the recipe's."""

    recipe: Recipe
    precision: str
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)

    def config(self, data: str | Path | None) -> TrainConfig:
        """The trainer's settings, with the dataset in the file `data`; a recipe with live data needs none."""
        settings = {"dtype": HALF, "precision": self.precision, "seed": self.seed, **self.changes}
        return TrainConfig.of(self.recipe, None if self.recipe.live else data, **settings)


@dataclass(frozen=True)
class Trained:
    """What came of a training. `result` is None where it diverged, and `reason` says at what."""

    run_dir: Path
    result: RunResult | None
    reason: str | None = None

    @property
    def diverged(self) -> bool:
        return self.result is None

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """The rows of metrics.csv, those before a divergence included."""
        return read_metrics(self.run_dir) if (self.run_dir / "metrics.csv").exists() else []

    def operator(self) -> nn.Module:
        """The trained model, from data units to data units."""
        return load(self.run_dir / "model.safetensors")


class Lab:
    """Makes what experiments share. All of it can be deleted at any time and comes back the same."""

    def __init__(self, directory: str | Path, workers: int | None = None) -> None:
        self.directory = Path(directory)
        self.workers = workers or core_count()

    def data(self, recipe: Recipe) -> Path | None:
        """The dataset file of a recipe; None where its data are made while training, as the recipe says."""
        if recipe.live:
            return None
        path = self.directory / ".data" / f"{recipe.generator}-{_hash(_content(recipe))}.h5"
        if not path.exists():
            generator = build_generator(recipe.generator, **recipe.parameters)
            # A few samples are not worth starting processes for.
            workers = self.workers if recipe.n_train > 64 else 1
            generate(generator, path, n_train=recipe.n_train, n_test=recipe.n_test, workers=workers)
        return path

    def dataset(self, recipe: Recipe) -> AnyDataset:
        return open_data(TrainConfig.of(recipe, self.data(recipe)))

    def train(self, training: Training) -> Trained:
        """The trained run; one that is there already is not trained again. Divergence is a result like any other."""
        config = training.config(self.data(training.recipe))
        run_dir = self.run_dir(training)
        if (run_dir / "diverged.json").exists():
            return Trained(run_dir, None, read_json(run_dir / "diverged.json")["reason"])
        try:
            result = train(config, run_dir, quiet=True)
        except NonFiniteError as error:
            write_json(run_dir / "diverged.json", {"reason": str(error)})
            return Trained(run_dir, None, str(error))
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return Trained(run_dir, result)

    def run_dir(self, training: Training) -> Path:
        """Named after the settings that decide the result; where the data lies is not among them."""
        values = training.config("").to_dict()
        settings = {name: value for name, value in values.items() if name not in FREE_ON_RESUME}
        content = _hash([settings, _content(training.recipe)])
        name = f"{training.recipe.name}-{training.precision}-{training.seed}-{content}"
        return self.directory / ".runs" / name

    def compare(self, trainings: Mapping[str, Training], steps: int = 5) -> dict[str, dict[str, float]]:
        """`compare_steps` of trainings on one dataset: memory counted exactly, steps timed in turn, nothing kept."""
        recipes = [training.recipe for training in trainings.values()]
        if any(_content(recipe) != _content(recipes[0]) for recipe in recipes):
            names = ", ".join(dict.fromkeys(recipe.name for recipe in recipes))
            raise ValueError(f"steps are compared on one dataset: expected recipes with the same data, got {names}")
        configs = {name: training.config(self.data(recipes[0])) for name, training in trainings.items()}
        return compare_steps(configs, self.dataset(recipes[0]), steps)


def _content(recipe: Recipe) -> list[Any]:
    """All that decides the values of a recipe's dataset."""
    return [RESULTS_VERSION, recipe.generator, dict(recipe.parameters), recipe.n_train, recipe.n_test]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]
