"""One door: what `train` reads, `evaluate`, `predict`, `bounds`, `plan` and `profile` read, and all say how."""

import json

import h5py
import numpy as np
import pytest
import scipy.io
import torch

N, SIDE = 10, 16
TINY = ["--epochs", "1", "--batch-size", "4", "--arguments", "n_modes=[4,4]", "hidden_channels=4", "n_layers=1"]


@pytest.fixture(autouse=True)
def _few_pictures(monkeypatch):
    monkeypatch.setattr("halfwave.report.draw_curves", lambda run_dir: None)


def fields(grid=(SIDE, SIDE)):
    rng = np.random.default_rng(0)
    return (rng.standard_normal((N, *grid)).astype(np.float32) for _ in range(2))


def write_npz(path, x, y):
    np.savez(path, x=x, y=y)


def write_named_npz(path, x, y):
    np.savez(path, permeability=x[:, None], pressure=y, other=x)


def write_torch(path, x, y):
    torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, path)


def write_matlab(path, x, y):
    scipy.io.savemat(path, {"coeff": x, "sol": y})


def write_pdebench(path, x, y):
    with h5py.File(path, "w") as file:
        file["tensor"] = np.stack([x, 0 * x, y], axis=1)


def write_the_well(path, x, y):
    with h5py.File(path, "w") as file:
        file["t0_fields/density"] = np.stack([x, 0 * x, y], axis=1)
        file["t0_fields/density"].attrs.update(sample_varying=True, time_varying=True, dim_varying=[True, True])


def write_h5(path, x, y):
    """Axes as they are: names alone make no MATLAB file."""
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = x, y


def write_h5_channels_last(path, x, y):
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = x[..., None], y[..., None]


DOORS = {
    "npz": (write_npz, "d.npz", []),
    "named": (write_named_npz, "n.npz", ["--x-key", "permeability", "--y-key", "pressure"]),
    "pt": (write_torch, "d.pt", []),
    "mat": (write_matlab, "d.mat", []),
    "pdebench": (write_pdebench, "d.hdf5", []),
    "the-well": (write_the_well, "w.hdf5", []),
    "hdf5": (write_h5, "d.h5", []),
    "last": (write_h5_channels_last, "l.h5", ["--channel-axis", "-1", "--domain", "torus"]),
}


def planned(command, recipe, data, understood, options=()):
    """`plan` reads the file as `understood`; the planning itself, which takes a while, is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("halfwave.commands.plan.judge", lambda recipe, *_, **__: iter([]))
        code, printed, err = command("plan", recipe, "--data", data, "--json", *options)
    assert (code, json.loads(printed)["policies"]) == (0, []), err
    assert understood in err


@pytest.mark.parametrize("door", DOORS)
def test_every_format_through_every_command(door, command, tmp_path):
    write, name, options = DOORS[door]
    x, y = fields()
    write(tmp_path / name, x, y)
    data, run, out = tmp_path / name, tmp_path / "run", tmp_path / "out.npy"
    code, _, err = command("train", "fno", "--data", data, "--out", run, *TINY, *options)
    assert code == 0, err
    understood = f"{name}: 8 + 2 samples; 1 -> 1 channels on 16 x 16; domain "
    assert understood in err
    code, printed, err = command("evaluate", run, "--data", data, "--json", *options)
    assert code == 0, err
    own = json.loads(command("evaluate", run, "--json")[1])
    assert json.loads(printed)["l2"] == pytest.approx(own["l2"], rel=1e-6)
    code, _, err = command("predict", run, data, out, *options)
    assert code == 0, err
    assert f"{name}: 10 inputs of 1 channels on 16 x 16" in err
    assert np.load(out).shape == (N, 1, SIDE, SIDE)
    assert command("bounds", "--data", data, "--samples", "1", *options)[0] == 0
    code, printed, _ = command("bounds", "--run", run, "--samples", "1", "--json")
    assert (code, json.loads(printed)["kind"]) == (0, "certificate")
    planned(command, "fno", data, understood, options)


def test_plan_and_profile_of_a_run(command, trained, tmp_path):
    code, printed, err = command("plan", trained, "--json")
    assert code == 0, err
    assert [row["policy"] for row in json.loads(printed)["policies"]] == ["full", "amp", "half", "mixed"]
    code, printed, err = command("profile", trained, "--steps", "1", "--out", tmp_path / "profile")
    assert code == 0, err
    assert "by module" in printed


def test_shapes_that_can_be_read_in_several_ways_are_asked_about(fails, command, trained, tmp_path):
    rng = np.random.default_rng(0)
    data = tmp_path / "d.npz"
    np.savez(data, x=rng.standard_normal((6, 10, 64, 64)), y=rng.standard_normal((6, 10, 64, 64)))
    fails(1, "say which: --channel-axis 1, --channel-axis none", "plan", "fno", "--data", data)
    planned(command, "fno", data, "10 -> 10 channels on 64 x 64", ["--channel-axis", "1"])
    planned(command, "fno", data, "1 -> 1 channels on 10 x 64 x 64", ["--channel-axis", "none"])
    np.savez(data, x=np.ones((6, 16)), y=np.ones((6, 16)), a=np.ones((6, 16)), u=np.ones((6, 16)))
    fails(1, "accepted: one of 'x' and 'y', 'a' and 'u'", "bounds", "--data", data)
    fails(1, "has no array 'z'; it holds a, u, x, y", "bounds", "--data", data, "--x-key", "z")
    fails(2, "--channel-axis", "plan", "fno", "--data", data, "--channel-axis", "2")


def test_a_prediction_asks_the_model_what_its_axes_are(command, fails, trained, tmp_path):
    """N x 16 x 16 is 1 channel on 16 x 16 for a model on two axes, not 16 channels on a line."""
    np.save(tmp_path / "in.npy", np.random.default_rng(0).standard_normal((3, 16, 16)))
    code, _, err = command("predict", trained, tmp_path / "in.npy", tmp_path / "out.npy")
    assert code == 0, err
    assert "3 inputs of 1 channels on 16 x 16" in err
    assert np.load(tmp_path / "out.npy").shape == (3, 1, 16, 16)
    np.save(tmp_path / "in.npy", np.ones((3, 2, 16, 16)))
    fails(1, "has 2 channels on 2 grid axes", "predict", trained, tmp_path / "in.npy", tmp_path / "out.npy")
    fails(1, "inputs without outputs", "evaluate", trained, "--data", tmp_path / "in.npy")


def test_neuraloperators_burgers_file(command, tmp_path):
    """x on the line, y on times x line; as in its data processor, x is the same at all times."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((N, SIDE)), rng.standard_normal((N, 17, SIDE))
    write_torch(tmp_path / "burgers_16_train.pt", x, y)
    from halfwave.data import open_dataset

    dataset = open_dataset(tmp_path / "burgers_16_train.pt")
    assert dataset.grid == (17, SIDE)
    sample, target = dataset.train[2]
    np.testing.assert_allclose(sample[0], np.broadcast_to(x[2], (17, SIDE)), rtol=1e-6)
    np.testing.assert_allclose(target[0], y[2], rtol=1e-6)
    assert "x is repeated along time" in dataset.understood()
    code, _, err = command("train", "fno", "--data", dataset.path, "--out", tmp_path / "run", *TINY)
    assert code == 0, err


def car(n=60, resolution=8):
    """A sphere of radius 0.3 in the unit box, as neuraloperator's mini_car.pt has its bodies."""
    rng = np.random.default_rng(n)
    directions = rng.standard_normal((n, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    nodes = np.stack(np.meshgrid(*[np.linspace(0, 1, resolution)] * 3, indexing="ij"), axis=-1)
    distance = np.linalg.norm(nodes - 0.5, axis=-1) - 0.3
    values = {
        "vertices": 0.5 + 0.3 * directions,
        "press": rng.standard_normal((1, n)),
        "query_points": nodes,
        "distance": distance[..., None],
    }
    return {name: torch.from_numpy(value).float() for name, value in values.items()}, directions


def test_neuraloperators_car_list(command, fails, tmp_path):
    cars = [car(n) for n in (50, 60, 70, 80)]
    torch.save([item for item, _ in cars], tmp_path / "mini_car.pt")
    from halfwave.data import open_point_dataset

    dataset = open_point_dataset(tmp_path / "mini_car.pt")
    assert (dataset.n_train, dataset.n_test) == (3, 1)
    sample = dataset.train[1]
    np.testing.assert_allclose(sample.points, cars[1][0]["vertices"])
    assert float((sample.normals * torch.from_numpy(cars[1][1])).sum(1).min()) > 0.95  # outward, as the sphere's are
    tiny = ["--arguments", "fno_n_modes=[4,4,4]", "fno_hidden_channels=4", "fno_n_layers=1", "gno_embed_channels=4"]
    tiny += ["--latent-resolution", "6", "--epochs", "1"]
    code, _, err = command("train", "gino", "--data", dataset.path, "--out", tmp_path / "run", *tiny)
    assert code == 0, err
    assert "3 + 1 point clouds" in err
    assert command("evaluate", tmp_path / "run")[0] == 0
    assert command("predict", tmp_path / "run", dataset.path, tmp_path / "out.h5")[0] == 0
    torch.save([{"vertices": torch.ones(3, 3)}] * 3, tmp_path / "bad.pt")
    fails(1, "car 0 has no 'press'", "evaluate", tmp_path / "run", "--data", tmp_path / "bad.pt")
