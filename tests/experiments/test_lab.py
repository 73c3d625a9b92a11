"""Datasets and trainings of a results directory: made once, shared, and a divergence is a result."""

import pytest

from halfwave.experiments.lab import Lab, Training
from halfwave.recipes import PROBLEMS, Recipe, problem

TINY = Recipe(
    "tiny",
    "tiny",
    "FNO",
    {"n_modes": [4, 4], "hidden_channels": 6, "n_layers": 1},
    "darcy",
    {"resolution": 16},
    8,
    2,
    {"epochs": 1, "batch_size": 4},
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"))


def test_a_training_is_run_once_and_block_settings_are_precisions(lab, monkeypatch):
    first = lab.train(Training(TINY, "HHF"))
    assert not first.diverged
    assert [row["policy"] for row in first.epochs] == ["HHF"]
    changed = (first.run_dir / "metrics.csv").stat().st_mtime_ns
    assert lab.train(Training(TINY, "HHF")).result == first.result
    assert (first.run_dir / "metrics.csv").stat().st_mtime_ns == changed
    assert first.operator()(lab.dataset(TINY).test[:][0]).shape == (2, 1, 16, 16)


def test_settings_that_matter_tell_runs_apart(lab):
    runs = [
        Training(TINY, "full"),
        Training(TINY, "full", seed=1),
        Training(TINY, "full", changes={"epochs": 2}),
        Training(TINY, "full", changes={"arguments": {"hidden_channels": 8}}),
    ]
    assert len({lab.run_dir(training) for training in runs}) == 4
    assert lab.run_dir(runs[0]) == lab.run_dir(Training(TINY, "full", changes={"checkpoint_every": 7}))


def test_a_divergence_is_kept_with_its_reason(lab):
    training = Training(TINY, "full", changes={"learning_rate": 1e30, "epochs": 3})
    for _ in range(2):
        trained = lab.train(training)
        assert trained.diverged
        assert "finite" in trained.reason


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_every_problem_has_a_recipe_whose_settings_are_valid(scale):
    for name in PROBLEMS:
        recipe = problem(name, scale)
        config = Training(recipe, "mixed").config("data.h5")
        assert config.dtype == "fp16"
        assert recipe.n_train > recipe.n_test > 0
