"""What is no path, no model, no number and no JSON, given to the Python interface and in settings: InputError."""

import numpy as np
import pytest
import torch

import halfwave
from halfwave.cli import run
from halfwave.data import Darcy, generate
from halfwave.errors import InputError
from halfwave.models import FNO
from halfwave.precision import Schedule
from halfwave.training import TrainConfig, evaluate, read_config, read_metrics, rounding_of, train, train_seeds
from halfwave.training.records import EpochMetrics

X = np.ones((3, 1, 8, 8), dtype=np.float32)
NO_PATHS = (None, 5, b"x", "a\0b", ["x"])


@pytest.fixture(scope="module")
def model():
    return FNO((2, 2), 1, 1, 2, n_layers=1)


@pytest.mark.parametrize("path", NO_PATHS, ids=repr)
def test_what_is_no_path_is_refused(path, model):
    for call in (
        lambda: halfwave.load(path),
        lambda: halfwave.save(model, path),
        lambda: read_config(path),
        lambda: read_metrics(path),
        lambda: train(data=(X, X), run_dir=path) if path is not None else halfwave.load(path),
    ):
        with pytest.raises(InputError, match="is no path"):
            call()


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 2**64},
        {"seed": -1},
        {"epochs": 10**400},
        {"learning_rate": float("inf")},
        {"arguments": {"n_modes": {1, 2}}},
        {"arguments": {"n_modes": torch}},
        {"precision": "schedule", "phases": ((float("nan"), "full"),)},
        {"model": FNO},
        {"data": 5},
        {"data": None},
        {"data": {"x": X}},
        {"horizons": ((float("inf"), 1),)},
    ],
    ids=lambda settings: str(next(iter(settings.items())))[:40],
)
def test_settings_of_no_use_are_refused(settings, tmp_path):
    with pytest.raises(InputError):
        train(**{"data": (X, X), "run_dir": tmp_path / "run", **settings})
    assert not (tmp_path / "run").exists()


def test_models_and_samples_that_are_none_are_refused(model, tmp_path):
    halfwave.save(model, tmp_path / "model.safetensors")
    for call in (
        lambda: halfwave.save("model", tmp_path / "x"),
        lambda: halfwave.save(model, tmp_path / "x", extra={"a": object()}),
        lambda: halfwave.save(model, tmp_path / "x", extra=5),
        lambda: halfwave.load(tmp_path / "model.safetensors", model="x"),
        lambda: halfwave.load(tmp_path / "model.safetensors", model=torch.nn.Linear(2, 2)),
        lambda: evaluate("model", X),
        lambda: evaluate(model, "file.h5"),
        lambda: rounding_of(model, "file.h5"),
        lambda: train("config"),
        lambda: train_seeds("config", tmp_path, 2),
        lambda: train_seeds(TrainConfig(data="x", seed=2**64 - 1), tmp_path, 2),
        lambda: generate(Darcy(resolution=8), tmp_path / "d.h5", n_train=1, n_test=1, seed=2**64),
    ):
        with pytest.raises(InputError):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_phase_that_is_no_number_is_refused(tmp_path, capsys):
    with pytest.raises(ValueError, match="must be positive and sum to 1"):
        Schedule([(float("nan"), "full")])
    out = str(tmp_path / "run")
    assert run(["train", "darcy", "--out", out, "--precision", "schedule", "--phases", "nan", "full"]) == 2
    assert "finite" in capsys.readouterr().err


def test_a_run_whose_directory_is_taken_away_does_not_end_well(tmp_path, monkeypatch):
    """As by another program, between two epochs: neither a result nor a directory that has half of one."""
    run_dir = tmp_path / "run"

    def shown(row):
        if row.epoch == 1 and run_dir.exists():
            run_dir.rename(tmp_path / "moved")
        return "a row"

    monkeypatch.setattr(EpochMetrics, "__str__", shown)
    rng = np.random.default_rng(0)
    data = tuple(rng.standard_normal((4, 1, 8, 8)).astype(np.float32) for _ in range(2))
    arguments = {"n_modes": (2, 2), "hidden_channels": 2, "n_layers": 1}
    with pytest.raises(InputError, match="was removed while it was being written to"):
        train(data=data, model="FNO", arguments=arguments, run_dir=run_dir, epochs=3, quiet=True)
    assert not run_dir.exists()
