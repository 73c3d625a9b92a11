"""Every recipe from the command line: point clouds in files and directories, live data, and what is refused."""

import json

import h5py
import numpy as np
import pytest
import torch

from halfwave.cli import run
from halfwave.commands import train as train_command
from halfwave.data import open_point_dataset
from halfwave.display import PlainConsole
from halfwave.models import set_precision
from halfwave.recipes import recipes
from halfwave.training import load
from halfwave.training.config import read_config

TINY = [
    "--epochs", "1", "--batch-size", "2", "--latent-resolution", "5", "--arguments", "fno_n_modes=[4,4,4]",
    "fno_hidden_channels=4", "fno_n_layers=1", "in_gno_radius=0.3", "out_gno_radius=0.3", "gno_embed_channels=4",
    "in_gno_channel_mlp_hidden_layers=[4]", "out_gno_channel_mlp_hidden_layers=[4]",
]  # fmt: skip


@pytest.fixture(scope="session")
def bodies(tmp_path_factory):
    path = tmp_path_factory.mktemp("clouds") / "ahmed.h5"
    sizes = ["--resolution", "100", "--n-train", "4", "--n-test", "2", "--workers", "1"]
    assert run(["data", "ahmed", *sizes, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def trained_bodies(bodies, tmp_path_factory):
    out = tmp_path_factory.mktemp("cloud-runs") / "ahmed"
    torch.set_num_threads(1)
    assert run(["train", "ahmed", "--data", str(bodies), "--out", str(out), "--subsample", "2", *TINY]) == 0
    return out


def test_evaluate_reads_the_data_as_the_run_did_and_has_no_h1(trained_bodies, command):
    code, out, _ = command("evaluate", trained_bodies, "--json")
    values = json.loads(out)
    assert code == 0
    assert values["h1"] is None
    assert values["l2"] == pytest.approx(json.loads((trained_bodies / "summary.json").read_text())["l2"], rel=1e-4)
    code, out, _ = command("evaluate", trained_bodies, "--json", "--subsample", 1)
    assert json.loads(out)["l2"] != values["l2"]
    code, out, _ = command("evaluate", trained_bodies)
    assert code == 0
    assert "latent 5x5x5" in out


def test_predict_writes_the_pressure_of_every_point(trained_bodies, bodies, command, tmp_path):
    code, out, _ = command("predict", trained_bodies, bodies, tmp_path / "out.h5", "--batch-size", 1)
    assert code == 0
    assert "2 clouds" in out
    operator, split = load(trained_bodies / "model.safetensors"), open_point_dataset(bodies).test
    set_precision(operator, "full")  # what it answers in unless told otherwise
    with h5py.File(tmp_path / "out.h5") as file, torch.no_grad():
        offsets = file["offsets"][:]
        assert offsets.tolist() == [0, len(split[0].points), len(split[0].points) + len(split[1].points)]
        for i, sample in enumerate(split):
            rows = slice(offsets[i], offsets[i + 1])
            assert np.array_equal(file["points"][rows], sample.points.numpy())
            expected = operator(operator.encoder.collate([sample]))[:, 0].numpy()
            assert np.allclose(file["pressure"][rows], expected, rtol=1e-4, atol=1e-3)


def test_predict_needs_no_pressure(trained_bodies, bodies, command, tmp_path):
    with h5py.File(bodies) as source, h5py.File(tmp_path / "bare.h5", "w") as bare:
        for name in ("points", "normals", "areas", "parameters", "offsets"):
            bare[name] = source[f"test/{name}"][:]
    for name, source in (("a.h5", bodies), ("b.h5", tmp_path / "bare.h5")):
        assert command("predict", trained_bodies, source, tmp_path / name)[0] == 0
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert np.array_equal(a["pressure"][:], b["pressure"][:])


def test_a_directory_of_meshes(command, tmp_path):
    """A tetrahedron a folder, with a pressure and a velocity."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    for i in range(5):
        folder = tmp_path / "meshes" / f"body{i}"
        folder.mkdir(parents=True)
        lines = ["ply", "format ascii 1.0", "element vertex 4", *(f"property float {c}" for c in "xyz")]
        lines += ["element face 4", "property list uchar int vertex_indices", "end_header"]
        lines += [" ".join(map(str, corner * (1 + i))) for corner in corners] + [
            "3 " + " ".join(map(str, f)) for f in faces
        ]
        (folder / "mesh.ply").write_text("\n".join(lines) + "\n")
        np.save(folder / "press.npy", np.arange(4.0) + i)
        (folder / "parameters.json").write_text(json.dumps({"velocity": 10.0 + i}))
    train = ("train", "ahmed", "--data", tmp_path / "meshes", "--out", tmp_path / "run", *TINY)
    assert command(*train)[0] == 0
    code, out, _ = command("evaluate", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["samples"] == 1
    assert command("predict", tmp_path / "run", tmp_path / "meshes", tmp_path / "out.h5")[0] == 0
    (tmp_path / "run" / "summary.json").unlink()
    np.save(tmp_path / "meshes" / "body0" / "press.npy", np.arange(4.0) + 7)
    code, _, err = command(*train)
    assert code == 1
    assert "is not the file that" in err


def test_clouds_and_grids_are_not_mixed_up(fails, trained, trained_bodies, dataset, bodies, tmp_path):
    run_to = ("--out", tmp_path / "run")
    fails(1, "FNO cannot be applied to", "train", "darcy", "--data", bodies, *run_to)
    fails(1, "GINO cannot be applied to", "train", "car", "--data", dataset, *run_to)
    fails(1, "holds fields on a grid; the model takes point clouds", "evaluate", trained_bodies, "--data", dataset)
    fails(1, "holds point clouds; the model takes fields on a grid", "evaluate", trained, "--data", bodies)
    fails(2, "--resolution is for fields on a grid", "evaluate", trained_bodies, "--resolution", 4)
    fails(1, "holds fields on a grid; a dataset 'points'", "predict", trained_bodies, dataset, tmp_path / "o.h5")
    fails(1, "holds point clouds; fields on a grid are expected", "predict", trained, bodies, tmp_path / "o.h5")
    fails(1, "clouds need a name that ends in .h5", "predict", trained_bodies, bodies, tmp_path / "o.npy")
    assert not (tmp_path / "run").exists()


def test_shallow_water_is_live_without_a_file(command, tmp_path):
    arguments = ["--arguments", "n_modes=[4,8]", "hidden_channels=4", "n_layers=1", "--batch-size", "2"]
    sizes = ["--resolution", "8", "--n-train", "2", "--n-test", "2", "--epochs", "1"]
    code, _, err = command("train", "shallow-water", "--out", tmp_path / "run", *sizes, *arguments)
    assert code == 0, err
    config = read_config(tmp_path / "run" / "config.json")
    assert (config.data, config.resolution, config.n_train) == ("live:shallow-water", 8, 2)
    code, out, _ = command("evaluate", tmp_path / "run", "--json")
    assert json.loads(out)["grid"] == "8x16"
    assert not (tmp_path / "data").exists()


def test_without_a_file_the_recipe_makes_one_and_says_how(command, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # a second process would take longer to start than to work
    monkeypatch.setattr(train_command, "log_console", lambda: PlainConsole(stderr=True, width=400))
    arguments = ["--epochs", "1", "--arguments", "n_modes=[4,4]", "hidden_channels=4", "n_layers=1"]
    sizes = ["--n-train", "3", "--n-test", "2", "--resolution", "12"]
    code, _, err = command("train", "darcy", *sizes, *arguments)
    assert code == 0, err
    made = "halfwave data darcy --resolution 12 --n-train 3 --n-test 2 --out data/darcy-12-3-2.h5"
    assert made in " ".join(err.split())
    assert (tmp_path / "data" / "darcy-12-3-2.h5").exists()
    assert (
        command("data", "darcy", *sizes, "--seed", 1, "--force", "--workers", 1, "--out", "data/darcy-12-3-2.h5")[0]
        == 0
    )
    fails(1, "give --data data/darcy-12-3-2.h5 to train on it", "train", "darcy", *sizes, *arguments, "--out", "other")


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_every_recipe_has_data_that_its_generator_makes(recipe):
    assert train_command.adapt(recipe) == recipe
    assert f"halfwave data {recipe.generator}" in train_command._command(recipe, train_command._generator(recipe))
