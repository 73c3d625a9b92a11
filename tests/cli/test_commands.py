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
    assert values["l2_full"] == pytest.approx(float(row["test_l2_full"]), rel=1e-4)
    assert values["precision"] == "mixed"
    assert values["l2_full"] != values["l2"], "mixed precision rounds"
    assert values["samples"] == 3
    _, out, _ = command("evaluate", trained, "--precision", "full", "--json")
    assert json.loads(out)["l2"] == values["l2_full"]
    _, out, _ = command("evaluate", trained)
    assert "mixed" in out
    assert "full" in out


def test_evaluate_at_another_resolution_and_precision(trained, command):
    code, out, _ = command("evaluate", trained, "--resolution", 8, "--precision", "full", "--json")
    assert code == 0
    assert json.loads(out)["grid"] == "8x8"


def test_evaluate_says_which_domain_and_takes_the_runs_where_a_file_has_none(trained, command, tmp_path):
    _, out, _ = command("evaluate", trained, "--json")
    declared = {"kind": "box", "lengths": [1.0, 1.0], "points": "nodes", "origin": "declared"}
    assert json.loads(out)["domain"] == declared
    assert json.loads((trained / "config.json").read_text())["domain"] == declared
    x = np.random.default_rng(0).uniform(3, 12, (4, 16, 16))
    np.savez(tmp_path / "d.npz", x=x, y=x)
    found = {}
    for domain in (None, "box", "torus"):
        option = () if domain is None else ("--domain", domain)
        code, out, _ = command("evaluate", trained, "--data", tmp_path / "d.npz", "--json", *option)
        assert code == 0
        found[domain] = json.loads(out)
    assert found[None] == found["box"]
    assert found["torus"]["domain"]["kind"] == "torus"
    assert found["torus"]["h1"] != found["box"]["h1"]
    assert found["torus"]["l2"] == found["box"]["l2"]


def test_a_file_without_a_domain_gets_the_default_and_is_told(command, tmp_path):
    x = np.random.default_rng(0).uniform(3, 12, (6, 12, 12))
    x[-1] = 0
    np.savez(tmp_path / "d.npz", x=x, y=x)
    tiny = ("--epochs", 1, "--batch-size", 4, "--arguments", "n_modes=[4,4]", "hidden_channels=4", "n_layers=1")
    given = ("train", "darcy", "--data", tmp_path / "d.npz", "--n-test", 2, *tiny)
    code, out, err = command(*given, "--out", tmp_path / "a")
    assert code == 0
    assert "domain: box-cells 1 x 1, the default, as d.npz declares none (--domain)" in " ".join(err.split())
    assert "1 test targets are zero: left out of the errors" in " ".join(out.split())
    assert json.loads((tmp_path / "a" / "config.json").read_text())["domain"]["origin"] == "default"
    code, _, err = command(*given, "--out", tmp_path / "b", "--domain", "torus:2")
    assert code == 0
    assert "domain:" not in err
    record = json.loads((tmp_path / "b" / "config.json").read_text())
    assert record["domain"] == {"kind": "torus", "lengths": [2.0, 2.0], "derivative": "spectral", "origin": "given"}
    code, out, _ = command("evaluate", tmp_path / "a")
    words = " ".join(out.split())
    assert "domain: box-cells 1 x 1, as d.npz declares none (--domain)" in words
    assert "1 of 2 targets are zero: left out of the mean errors" in words


@pytest.mark.parametrize("suffix", [".h5", ".npy"])
def test_predict_on_an_odd_non_square_grid_is_the_model_called_from_python(trained, command, tmp_path, suffix):
    fields = np.random.default_rng(0).uniform(3, 12, (5, 1, 21, 33)).astype(np.float32)
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".npy":
        np.save(source, fields)
    else:
        with h5py.File(source, "w") as file:
            file["x"] = fields
    model = hw.load(trained / "model.safetensors")
    # As it was trained where that is asked for, else in full precision.
    for option, precision in ((["--precision", "trained"], None), ([], "full")):
        code, _, _ = command("predict", trained, source, target, "--batch-size", 2, *option)
        assert code == 0
        found = np.load(target) if suffix == ".npy" else h5py.File(target)["y"][()]
        if precision is not None:
            hw.set_precision(model, precision)
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
