"""Files of the user are his: no command removes one that it did not make, or overwrites what it reads."""

import json
import os
import shutil

import h5py
import numpy as np
import pytest

from halfwave.files import PARTIAL, remove_leftovers, written_aside

TINY = ["--epochs", "1", "--arguments", "n_modes=[4,4]", "hidden_channels=4", "n_layers=1"]
HIDDEN = (".settings.json.bak", ".x.csv.1", ".model.safetensors.old", ".figure.png.orig", ".halfwave-partial.txt")


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def put(folder, names, text="mine"):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)


def test_training_removes_what_it_left_itself_and_nothing_else(command, dataset, tmp_path):
    out = tmp_path / "run"
    left = [f".metrics.csv.abc123{PARTIAL}", f".at-0000000001.safetensors.x{PARTIAL}"]
    for folder in (out, out / "state"):
        put(folder, (*HIDDEN, *left))
    code, _, err = command("train", "darcy", "--data", dataset, "--out", out, *TINY)
    assert code == 0, err
    for folder in (out, out / "state"):
        assert {p.name for p in folder.glob(".*")} == set(HIDDEN)
        assert all((folder / name).read_text() == "mine" for name in HIDDEN)


def test_what_is_being_written_can_be_told(tmp_path):
    put(tmp_path, HIDDEN)
    with written_aside(tmp_path / "a.csv") as aside:
        assert aside.name.startswith(".a.csv.")
        assert aside.name.endswith(PARTIAL)
        shutil.copy(aside, tmp_path / f".killed{PARTIAL}")
    remove_leftovers(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {*HIDDEN, "a.csv"}


def test_data_in_the_making_leave_a_folder_of_the_user_alone(command, fails, tmp_path):
    put(tmp_path / "d.h5.partial", ["notes.txt"])
    small = ["--resolution", 8, "--n-train", 1, "--n-test", 1, "--workers", 1]
    for more in ([], ["--seed", 1, "--force"]):
        assert command("data", "darcy", *small, *more, "--out", tmp_path / "d.h5")[0] == 0
    assert {p.name for p in tmp_path.iterdir()} == {"d.h5", "d.png", "d.h5.partial"}
    assert (tmp_path / "d.h5.partial" / "notes.txt").read_text() == "mine"
    # The preview of d.png would be d.png.
    fails(2, "the preview of NAME.h5 is NAME.png", "data", "darcy", *small, "--out", tmp_path / "e.png")
    assert not (tmp_path / "e.png").exists()


@pytest.fixture
def fields(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.ones((2, 1, 16, 16), np.float32)
    return path


@pytest.mark.parametrize("way", ["the same", "relative", "symlink", "hard link", "symlinked folder", "onto the model"])
def test_predict_refuses_to_overwrite_what_it_reads(fails, trained, fields, tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    run, source, target = trained, fields, tmp_path / "b.h5"
    if way == "the same":
        target = fields
    elif way == "relative":
        (tmp_path / "sub").mkdir()
        target = os.path.join("sub", "..", "a.h5")
    elif way == "symlink":
        target.symlink_to(fields)
    elif way == "hard link":
        os.link(fields, target)
    elif way == "symlinked folder":
        (tmp_path / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
        target = tmp_path / "elsewhere" / "a.h5"
    else:
        run = target = shutil.copy(trained / "model.safetensors", tmp_path / "model.h5")
    before = contents(tmp_path)
    fails(1, "which is read; choose another name", "predict", run, source, target)
    assert contents(tmp_path) == before


def test_a_run_takes_no_directory_of_another_program(fails, dataset, tmp_path):
    for name in ("config.json", "metrics.csv", "model.safetensors"):
        out = tmp_path / name
        put(out, [name], '{"model_type": "other"}')
        fails(1, f"holds a {name} that is not of a run", "train", "darcy", "--data", dataset, "--out", out, *TINY)
        assert (out / name).read_text() == '{"model_type": "other"}'
    meshes = tmp_path / "meshes"
    put(meshes, ["train.txt", "test.txt"])
    fails(1, "that would overwrite", "train", "car", "--data", meshes, "--out", tmp_path / "." / "meshes")
    assert set(contents(meshes)) == {"train.txt", "test.txt"}


def test_the_numbers_of_a_plot_overwrite_their_like_only(command, fails, tmp_path):
    question = ("bounds", "--grid", 16, "--lipschitz", 1.0, "--sup", 1.0)
    for _ in range(2):
        assert command(*question, "--plot", tmp_path / "p.png")[0] == 0
    for text in ('{"epochs": 3}', "// not JSON"):
        (tmp_path / "config.json").write_text(text)
        fails(1, "config.json, the numbers of --plot", *question, "--plot", tmp_path / "config.png")
        assert (tmp_path / "config.json").read_text() == text
    assert not (tmp_path / "config.png").exists()


def test_a_report_overwrites_no_result_and_no_picture_of_others(command, fails, tmp_path):
    results = tmp_path / "results" / "smoke"
    put(results, ["memory.csv"], "key,x\na,1\n")
    (results / "memory.json").write_text(json.dumps({"rows": {}}))
    before = contents(results)
    arguments = ("report", "--results", tmp_path / "results")
    fails(1, "memory.csv, which is read", *arguments, "--out", results / "memory.html")
    assert contents(results) == before
    put(tmp_path / "mine" / "plots", ["memory.png"])
    assert command(*arguments, "--out", tmp_path / "mine")[0] == 0
    assert (tmp_path / "mine" / "plots" / "memory.png").read_text() == "mine"
