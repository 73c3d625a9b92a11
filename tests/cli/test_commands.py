"""The commands as a user calls them, on a tiny dataset."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.cli import COMMANDS, parse
from halfwave.planner import plan_precision
from halfwave.training import TrainConfig


def test_data_file_has_the_documented_layout(dataset):
    with h5py.File(dataset) as file:
        assert file["train/x"].shape == file["train/y"].shape == (8, 1, 16, 16)
        assert file["test/x"].shape == (3, 1, 16, 16)
        metadata = json.loads(file.attrs["metadata"])
    assert {"equation", "parameters", "seed", "solver", "version"} <= set(metadata)


def test_train_leaves_a_run(trained):
    names = {p.name for p in trained.iterdir()}
    assert {"config.json", "metrics.csv", "model.safetensors", "state"} <= names
    assert len((trained / "metrics.csv").read_text().splitlines()) == 3


def test_training_again_returns_the_finished_run(trained, dataset, command):
    code, out, _ = command(
        "train", "darcy", "--data", dataset, "--out", trained, "--epochs", 2, "--batch-size", 4,
        "--arguments", "n_modes=[4,4]", "hidden_channels=6", "n_layers=2",
    )  # fmt: skip
    assert code == 0
    assert "finished after 2 epochs" in " ".join(out.split())


def test_evaluate_prints_the_errors_of_the_run(trained, command):
    code, out, _ = command("evaluate", trained, "--json")
    values = json.loads(out)
    assert code == 0
    last = (trained / "metrics.csv").read_text().splitlines()
    row = dict(zip(last[0].split(","), last[-1].split(","), strict=True))
    assert values["l2"] == pytest.approx(float(row["test_l2"]), rel=1e-4)
    assert values["samples"] == 3


def test_evaluate_at_another_resolution_and_precision(trained, command):
    code, out, _ = command("evaluate", trained, "--resolution", 8, "--precision", "full", "--json")
    assert code == 0
    assert json.loads(out)["grid"] == "8x8"


@pytest.mark.parametrize("suffix", [".h5", ".npy"])
def test_predict_on_an_odd_non_square_grid_is_the_model_called_from_python(trained, command, tmp_path, suffix):
    fields = np.random.default_rng(0).uniform(3, 12, (5, 1, 21, 33)).astype(np.float32)
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".npy":
        np.save(source, fields)
    else:
        with h5py.File(source, "w") as file:
            file["x"] = fields
    code, _, _ = command("predict", trained, source, target, "--batch-size", 2)
    assert code == 0
    found = np.load(target) if suffix == ".npy" else h5py.File(target)["y"][()]
    model = hw.load(trained / "model.safetensors")
    with torch.no_grad():
        expected = torch.cat([model(torch.from_numpy(fields[i : i + 2])) for i in range(0, 5, 2)])
    assert np.array_equal(found, expected.numpy())


def test_every_setting_of_the_trainer_is_an_option():
    accepted = {name for name in TrainConfig.model_fields if name not in ("data", "recipe", "arguments", "model")}
    command = parse(["train", "darcy"])
    assert accepted <= set(vars(command))


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_readable_at_80_columns(name, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command(*([name] if name else []), "--help")
    assert code == 0
    assert f"usage: halfwave {name}" in out
    assert max(map(len, out.splitlines())) <= 80


def test_module_is_the_command():
    found = subprocess.run([sys.executable, "-m", "halfwave", "trian"], capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr.splitlines() == ["halfwave: unknown command 'trian': expected one of " + ", ".join(COMMANDS)]


def test_train_with_a_precision_plan(command, fails, dataset, tmp_path):
    plan = plan_precision(hw.FNO((4, 4), 1, 1, 6, n_layers=2), dataset)
    plan.save(tmp_path / "plan.json")
    tiny = ["--epochs", "1", "--batch-size", "4", "--arguments", "n_modes=[4,4]", "hidden_channels=6", "n_layers=2"]
    train = ["train", "darcy", "--data", dataset, "--out", tmp_path / "run", *tiny, "--policy"]
    code, _, err = command(*train, tmp_path / "plan.json")
    assert code == 0, err
    assert hw.load(tmp_path / "run" / "model.safetensors").model.policy == plan.policy
    fails(2, "--policy is given and --precision is amp", *train, tmp_path / "plan.json", "--precision", "amp")
    (tmp_path / "other.json").write_text("[]")
    fails(1, "other.json is not a precision plan", *train, tmp_path / "other.json")
