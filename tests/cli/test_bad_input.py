"""Every bad input of the first issue: one line that says what was given and what is accepted, and nothing lost."""

import pickle
import shutil

import h5py
import numpy as np
import pytest
import torch

TINY = ["--epochs", "1", "--arguments", "n_modes=[4,4]", "hidden_channels=4", "n_layers=1"]


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("unknown precision 'quarter': expected one of full, amp, half, mixed", ["--precision", "quarter"]),
        ("unknown format 'fp12'", ["--dtype", "fp12"]),
        ("unknown stabilizer 'clip'", ["--stabilizer", "clip"]),
        ("Unrecognized options: --epoch", ["--epoch", "3"]),
        ("epochs", ["--epochs", "0"]),
        ("--epochs", ["--epochs", "many"]),
        ("expected KEY=VALUE, got 'width'", ["--arguments", "width"]),
    ],
)
def test_wrong_usage_of_train(fails, dataset, tmp_path, message, arguments):
    fails(2, message, "train", "darcy", "--data", dataset, "--out", tmp_path / "run", *arguments)
    assert not (tmp_path / "run").exists()


def test_unknown_names(fails, dataset, tmp_path):
    fails(2, "unknown recipe 'darcey': expected one of darcy, demo", "train", "darcey")
    fails(2, "there is no dataset 'darcey'; accepted: darcy", "data", "darcey")
    fails(2, "darcy has no parameter 'viscosity'", "data", "darcy", "--parameters", "viscosity=1")
    fails(2, "unknown command 'trian': expected one of demo, data, train", "trian")
    fails(
        1,
        "FNO cannot be built",
        "train",
        "darcy",
        "--data",
        dataset,
        "--out",
        tmp_path / "r",
        "--arguments",
        "width=3",
        "n_modes=[4,4]",
    )


def _damage(kind, dataset, path):
    """A file with one kind of damage."""
    if kind == "missing":
        return
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(dataset.read_bytes()[:5000])
    elif kind == "not HDF5":
        path.write_text("x,y\n1,2\n" * 100)
    else:
        shutil.copy(dataset, path)
        with h5py.File(path, "r+") as file:
            if kind == "no groups":
                del file["train"]
            elif kind == "wrong rank":
                del file["train/x"]
                file["train/x"] = np.ones((8, 16), np.float32)
            elif kind == "NaN":
                file["train/x"][3, 0, 0, 0] = np.nan


@pytest.mark.parametrize("kind", ["missing", "empty", "truncated", "not HDF5", "no groups", "wrong rank", "NaN"])
def test_damaged_data(fails, dataset, tmp_path, kind):
    path = tmp_path / "damaged.h5"
    _damage(kind, dataset, path)
    fails(1, "damaged.h5", "train", "darcy", "--data", path, "--out", tmp_path / "run", *TINY)


def test_wrong_channel_count(fails, trained, dataset, tmp_path):
    path = tmp_path / "two.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.ones((2, 2, 16, 16), np.float32)
    fails(
        1, "two.h5 has 2 channels on 2 grid axes; the model takes 1 on 2", "predict", trained, path, tmp_path / "o.h5"
    )
    assert not (tmp_path / "o.h5").exists()


def test_grid_too_small_for_the_modes(fails, dataset, tmp_path):
    arguments = ["--data", dataset, "--out", tmp_path / "run", "--arguments", "n_modes=[64,64]"]
    fails(1, "a grid of 16x16 is too small for n_modes [64, 64]", "train", "darcy", *arguments)


def test_damaged_checkpoints(fails, trained, tmp_path):
    good = (trained / "model.safetensors").read_bytes()
    bad = tmp_path / "model.safetensors"
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    damages = {
        "flipped": bytes(flipped),
        "truncated": good[: len(good) // 2],
        "empty": b"",
        "pickle": pickle.dumps({"weight": [1.0]}),
    }
    for content in damages.values():
        bad.write_bytes(content)
        fails(1, "model.safetensors", "evaluate", bad, "--data", tmp_path / "any.h5")
    torch.save({"weight": torch.ones(1)}, bad)
    fails(1, "model.safetensors", "evaluate", bad, "--data", tmp_path / "any.h5")


def test_checkpoint_of_another_model(trained):
    import halfwave as hw

    with pytest.raises(ValueError, match="holds a FNO: expected UNet"):
        hw.load(trained / "model.safetensors", expect="UNet")


def test_run_directory_of_other_settings_is_left_alone(fails, trained, dataset):
    before = {p.name: p.read_bytes() for p in trained.iterdir() if p.is_file()}
    fails(1, "batch_size: 4 -> 3", "train", "darcy", "--data", dataset, "--out", trained, "--epochs", 2,
          "--batch-size", 3, "--arguments", "n_modes=[4,4]", "hidden_channels=6", "n_layers=2")  # fmt: skip
    assert {p.name: p.read_bytes() for p in trained.iterdir() if p.is_file()} == before


def test_output_that_cannot_be_written(fails, trained, dataset, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    fails(1, "cannot write", "train", "darcy", "--data", dataset, "--out", blocked / "run", *TINY)
    fails(
        1, "cannot write", "data", "darcy", "--resolution", 8, "--n-train", 1, "--n-test", 1, "--out", blocked / "d.h5"
    )
    fails(1, "cannot write", "predict", trained, dataset, blocked / "out.h5")
    fails(1, "expected a name that ends in .h5, .hdf5 or .npy", "predict", trained, dataset, tmp_path / "out.txt")
    assert blocked.read_text() == "in the way"


def test_runs_and_files_that_are_not_there(fails, tmp_path):
    fails(1, "does not exist", "evaluate", tmp_path / "nowhere")
    fails(2, "unknown domain 'donut'", "train", "darcy", "--domain", "donut")
    fails(1, "has no model.safetensors", "evaluate", tmp_path)
    fails(1, "does not exist", "predict", tmp_path / "nowhere", tmp_path / "a.h5", tmp_path / "b.h5")


def test_debug_shows_the_traceback(capfd):
    from halfwave.cli import run

    assert run(["train", "darcey"], debug=True) == 2
    assert "Traceback" in capfd.readouterr().err
