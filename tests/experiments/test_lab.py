"""Datasets and trainings of a results directory: made once, shared, and a divergence is a result."""

from dataclasses import replace

import pytest
import torch

from halfwave.data import ShallowWater
from halfwave.experiments.lab import Lab, Training
from halfwave.recipes import PROBLEMS, Recipe, problem
from halfwave.training import evaluate
from halfwave.training.config import read_config

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
    assert evaluate(first.operator(), lab.dataset(TINY).test)["l2"] == pytest.approx(first.result.l2, rel=1e-5)


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


def test_a_live_recipe_is_trained_on_new_samples_each_epoch_and_needs_no_file(lab):
    """The paper makes its shallow-water data on the fly (line 294); at the other scales they are in a file."""
    paper = problem("shallow-water", "paper")
    assert [problem("shallow-water", scale).live for scale in ("smoke", "small", "paper")] == [False, False, True]
    planned = Training(paper, "mixed").config("ignored.h5")
    assert (planned.data, planned.n_train, planned.n_test, planned.resolution) == ("live:shallow-water", 120, 20, 256)
    small = problem("shallow-water", "smoke")
    tiny = replace(small, name="tiny-live", parameters={"resolution": 8}, n_train=2, n_test=1, live=True)
    changes = {"epochs": 1, "arguments": {"n_modes": [4, 4]}}
    trained = lab.train(Training(tiny, "full", changes=changes))
    assert read_config(trained.run_dir / "config.json").data == "live:shallow-water"
    assert not list(lab.directory.glob(".data/shallow-water*"))
    x, _ = lab.dataset(tiny).train[:]
    torch.testing.assert_close(x[0], torch.tensor(ShallowWater(resolution=8).samples(0, "train", [0])[0]["x"]))
    in_a_file = lab.train(Training(replace(tiny, live=False), "full", changes=changes))
    assert in_a_file.run_dir != trained.run_dir
    assert in_a_file.result.l2 == pytest.approx(trained.result.l2, rel=1e-5)  # the first epoch has the same samples


def test_steps_on_different_data_are_not_compared(lab):
    other = replace(TINY, name="finer", parameters={"resolution": 32})
    with pytest.raises(ValueError, match="expected recipes with the same data, got tiny, finer"):
        lab.compare({"a": Training(TINY, "full"), "b": Training(other, "full")})
