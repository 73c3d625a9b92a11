"""Lab: datasets and trainings of a results directory, each made once and shared by all experiments and processes.

DIRECTORY/.data/   dataset files, named after what made them
DIRECTORY/.runs/   run directories of the trainer, named after their settings and code; an interrupted one resumes
DIRECTORY/.locks/  one file for each training and row: processes side by side do not do the same work twice
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from halfwave.data import PointDataset, build_generator, generate
from halfwave.experiments.baselines import baselines_of
from halfwave.experiments.provenance import code_digest
from halfwave.files import held, read_json, write_json
from halfwave.numerics import core_count
from halfwave.recipes import HALF, Recipe
from halfwave.training import (
    FREE_ON_RESUME,
    AnyDataset,
    CloudSamples,
    NonFiniteError,
    RunResult,
    Samples,
    TrainConfig,
    compare_steps,
    load,
    open_data,
    read_metrics,
    rounding_of,
    train,
)

# What decides a trained model, and the samples of a dataset.
_TRAINER, _GENERATION = "halfwave.training.trainer", "halfwave.data.generation"


@dataclass(frozen=True)
class Training:
    """One training: a problem, a precision, a seed, and fields of `TrainConfig` that differ from the recipe's.

    The seed decides the first weights, the order of the samples and, but for the paper's own sizes, whose dataset is
    one, the samples themselves.
    """

    recipe: Recipe
    precision: str
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data_seed(self) -> int:
        return 0 if self.recipe.scale == "paper" else self.seed

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

    def data(self, recipe: Recipe, seed: int = 0) -> Path | None:
        """The dataset file of a recipe; None where its data are made while training, as the recipe says."""
        if recipe.live:
            return None
        path = self.directory / ".data" / f"{recipe.generator}-{_hash(_content(recipe, seed))}.h5"
        generator = build_generator(recipe.generator, **recipe.parameters)
        # A few samples are not worth starting processes for. A file that is there is kept, and tidied after a kill.
        workers = self.workers if recipe.n_train > 64 else 1
        return generate(generator, path, n_train=recipe.n_train, n_test=recipe.n_test, seed=seed, workers=workers)

    def dataset(self, recipe: Recipe, seed: int = 0) -> AnyDataset:
        return open_data(TrainConfig.of(recipe, self.data(recipe, seed)))

    def baselines(self, recipe: Recipe, seed: int = 0) -> dict[str, float | None]:
        """Errors of the predictors without a network on a recipe's data, {"mean_l2", "linear_l2"}; made once."""
        speed = recipe.training.get("speed")
        content = [_content(recipe, seed), speed, code_digest(baselines_of)]
        path = self.directory / ".data" / f"baselines-{_hash(content)}.json"
        if not path.exists():
            write_json(path, baselines_of(self.dataset(recipe, seed), speed))
        found: dict[str, float | None] = read_json(path)
        return found

    def test_samples(self, training: Training, operator: nn.Module) -> Samples:
        """The test split of a training as its operator takes it."""
        dataset = self.dataset(training.recipe, training.data_seed)
        if isinstance(dataset, PointDataset):
            return CloudSamples(dataset.test, operator.encoder)  # type: ignore[arg-type]
        return dataset.test

    def train(self, training: Training) -> Trained:
        """The trained run; one that is there already is not trained again. Divergence is a result like any other."""
        with held(self._lock(training), wait=True):
            return self._train(training)

    def is_busy(self, training: Training) -> bool:
        """Whether another process trains it now."""
        with held(self._lock(training), wait=False) as free:
            return not free

    def assess(self, training: Training) -> dict[str, float | None]:
        """What verdicts on a training's accuracy need.

        Test errors as trained (l2, h1) and of the same weights in full precision (l2_full, h1_full), by how much the
        answer moves between the two (rounding), and the baselines (mean_l2, linear_l2). None where it diverged.
        """
        trained = self.train(training)
        baselines = self.baselines(training.recipe, training.data_seed)
        errors = ("l2", "h1", "l2_full", "h1_full")
        if trained.result is None:
            return dict.fromkeys((*errors, "rounding")) | baselines
        return {name: getattr(trained.result, name) for name in errors} | {
            "rounding": self._rounding(training, trained),
            **baselines,
        }

    def run_dir(self, training: Training) -> Path:
        """Named after the settings that decide the result; where the data lies is not among them."""
        values = training.config("").to_dict()
        settings = {name: value for name, value in values.items() if name not in FREE_ON_RESUME}
        content = _hash([settings, _content(training.recipe, training.data_seed), code_digest(_TRAINER)])
        name = f"{training.recipe.name}-{training.precision}-{training.seed}-{content}"
        return self.directory / ".runs" / name

    def compare(self, trainings: Mapping[str, Training], steps: int = 5) -> dict[str, dict[str, float]]:
        """`compare_steps` of trainings on one dataset: memory counted exactly, steps timed in turn, nothing kept."""
        first = next(iter(trainings.values()))
        contents = [_content(training.recipe, training.data_seed) for training in trainings.values()]
        if any(content != contents[0] for content in contents):
            names = ", ".join(dict.fromkeys(training.recipe.name for training in trainings.values()))
            raise ValueError(f"steps are compared on one dataset: expected recipes with the same data, got {names}")
        data = self.data(first.recipe, first.data_seed)
        configs = {name: training.config(data) for name, training in trainings.items()}
        return compare_steps(configs, self.dataset(first.recipe, first.data_seed), steps)

    def _train(self, training: Training) -> Trained:
        run_dir = self.run_dir(training)
        if (run_dir / "diverged.json").exists():
            return Trained(run_dir, None, read_json(run_dir / "diverged.json")["reason"])
        try:
            result = train(training.config(self.data(training.recipe, training.data_seed)), run_dir, quiet=True)
        except NonFiniteError as error:
            write_json(run_dir / "diverged.json", {"reason": str(error)})
            return Trained(run_dir, None, str(error))
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return Trained(run_dir, result)

    def _rounding(self, training: Training, trained: Trained) -> float:
        """Kept beside the run."""
        path = trained.run_dir / "rounding.json"
        if not path.exists():
            operator = trained.operator()
            write_json(path, {"rounding": rounding_of(operator, self.test_samples(training, operator))})
        return float(read_json(path)["rounding"])

    def _lock(self, training: Training) -> Path:
        return self.directory / ".locks" / f"{self.run_dir(training).name}.lock"


def _content(recipe: Recipe, seed: int) -> list[Any]:
    """All that decides the values of a recipe's dataset."""
    generator = type(recipe.build_generator()).__module__
    code = code_digest(_GENERATION, generator)
    return [code, recipe.generator, dict(recipe.parameters), recipe.n_train, recipe.n_test, seed]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]
