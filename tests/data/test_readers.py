"""Every published layout written here and read back, and every kind of damage refused in one line."""

import pickle

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from halfwave.data import ReadOptions, open_dataset
from halfwave.errors import InputError

N, GRID = 10, (12, 11)


class NotATensor:
    """What a malicious file would hold."""


def fields(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, *GRID)).astype(np.float32), rng.standard_normal((n, *GRID)).astype(np.float32)


def save(write, path, *arguments, **named):
    """NumPy and scipy append their suffix to a name, not to an open file."""
    with open(path, "wb") as file:
        write(file, *arguments, **named)


def write_torch(path, x, y):
    torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, path)


def write_old_torch(path, x, y):
    torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, path, _use_new_zipfile_serialization=False)


def write_npz(path, x, y):
    save(np.savez, path, x=x, y=y)


def write_compressed_npz(path, x, y):
    save(np.savez_compressed, path, x=x, y=np.asfortranarray(y))


def write_mat(path, x, y):
    save(scipy.io.savemat, path, {"coeff": x, "sol": y, "Kcoeff": x})


def write_mat73(path, x, y):
    """As MATLAB does: 512 bytes of its own, then HDF5 with the axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["a"], file["u"] = x.T, y.T
        file["a"].attrs["MATLAB_class"] = np.bytes_("single")
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(128))


def write_mat73_in_time(path, x, y):
    """Navier-Stokes: u has time as its last axis in MATLAB, its first in HDF5."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["a"], file["u"] = x.T, np.stack([0 * y, 2 * y, y], axis=-1).T


def write_mat_in_time(path, x, y):
    save(scipy.io.savemat, path, {"a": x, "u": np.stack([0 * y, y], axis=-1), "t": np.arange(2.0)})


def write_pdebench_steady(path, x, y):
    with h5py.File(path, "w") as file:
        file["nu"], file["tensor"], file["x-coordinate"] = x, y[:, None], np.arange(12.0)


def write_pdebench_in_time(path, x, y):
    with h5py.File(path, "w") as file:
        file["tensor"], file["t-coordinate"] = np.stack([x, 0 * x, y], axis=1), np.arange(4.0)


def write_pdebench_by_seed(path, x, y):
    with h5py.File(path, "w") as file:
        for i in range(len(x)):
            file[f"{i:04d}/data"] = np.stack([x[i], 0 * x[i], y[i]])[..., None]
            file[f"{i:04d}/grid/x"] = np.arange(12.0)


def write_the_well(path, x, y):
    with h5py.File(path, "w") as file:
        file["t0_fields/density"] = np.stack([x, 0 * x, y], axis=1)
        file["t0_fields/density"].attrs.update(sample_varying=True, time_varying=True, dim_varying=[True, True])
        file["t0_fields/mask"] = np.zeros(GRID)
        file["t0_fields/mask"].attrs.update(sample_varying=False, time_varying=False, dim_varying=[True, True])
        file.create_group("t1_fields")
        file.create_group("t2_fields")
        file["scalars/Re"] = 3.0


WRITERS = {
    "pt": write_torch,
    "old-pt": write_old_torch,
    "npz": write_npz,
    "compressed-npz": write_compressed_npz,
    "mat": write_mat,
    "mat-time": write_mat_in_time,
    "mat73": write_mat73,
    "mat73-time": write_mat73_in_time,
    "pdebench": write_pdebench_steady,
    "pdebench-time": write_pdebench_in_time,
    "pdebench-seeds": write_pdebench_by_seed,
    "the-well": write_the_well,
}


@pytest.fixture(params=WRITERS)
def writer(request):
    return WRITERS[request.param]


def read_all(path):
    dataset = open_dataset(path)
    return dataset.train[:], dataset.test[:]


def refused(path, *words):
    """Open and read everything; the error must be one line that names the file."""
    with pytest.raises(InputError) as caught:
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    assert any(word in message for word in words), message


def test_read_back_right_whatever_the_name(writer, tmp_path):
    x, y = fields()
    writer(tmp_path / "data.bin", x, y)
    dataset = open_dataset(tmp_path / "data.bin")
    assert (dataset.n_train, dataset.n_test, dataset.grid, dataset.in_channels) == (8, 2, GRID, 1)
    assert dataset.metadata["test_split"] == "the last 2 of 10 samples"
    np.testing.assert_array_equal(dataset.train[:][0][:, 0], x[:8])
    np.testing.assert_array_equal(dataset.test[:][1][:, 0], y[8:])
    np.testing.assert_array_equal(dataset.train[[5, 0, 5]][1][:, 0], y[[5, 0, 5]])
    assert dataset.train[[]][0].shape == (0, 1, *GRID)
    again = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(again.test[1][0][0], x[9])


def test_truncated_files_are_refused(writer, tmp_path):
    path = tmp_path / "data.bin"
    writer(path, *fields())
    content = path.read_bytes()
    for part in (0.97, 0.5, 0.1):
        path.write_bytes(content[: int(len(content) * part)])
        refused(path, "truncated", "damaged", "not a")


def test_nan_is_refused(writer, tmp_path):
    x, y = fields()
    y[3, 0, 0] = np.nan
    writer(tmp_path / "data.bin", x, y)
    refused(tmp_path / "data.bin", "train/y holds NaN or infinity in sample 3")


@pytest.mark.parametrize("shape", [(N,), (N, 9, 9, 9, 9, 9)])
def test_wrong_rank_is_refused(writer, tmp_path, shape):
    path = tmp_path / "data.bin"
    if writer is write_pdebench_by_seed and len(shape) == 1:
        shape = (N, 0)
    writer(path, np.ones(shape, np.float32), np.ones(shape, np.float32))
    refused(path, "expected", "no data", "agree", "no field", "must all have", "differ", "more than")


def test_different_counts_are_refused(tmp_path):
    for name in ("pt", "npz", "mat", "mat73", "pdebench"):
        x, y = fields()
        WRITERS[name](tmp_path / name, x, y[:-1])
        refused(tmp_path / name, "agree in samples")


WRONG_KEYS = {
    "pt": lambda path: torch.save({"z": torch.ones(3)}, path),
    "npz": lambda path: save(np.savez, path, z=np.ones(3)),
    "mat": lambda path: save(scipy.io.savemat, path, {"z": np.ones(3)}),
    "h5": lambda path: h5py.File(path, "w").create_dataset("z", data=np.ones(3)).file.close(),
}


@pytest.mark.parametrize("kind", WRONG_KEYS)
def test_wrong_keys_are_refused_with_what_is_there(kind, tmp_path):
    WRONG_KEYS[kind](tmp_path / kind)
    refused(tmp_path / kind, "holds z")


OBJECTS = {
    "pt": lambda path: torch.save({"x": "text", "y": torch.ones(2, 9, 9)}, path),
    "pt-complex": lambda path: torch.save({"x": torch.ones(2, 9, 9) * 1j, "y": torch.ones(2, 9, 9)}, path),
    "pt-list": lambda path: torch.save([torch.ones(3)], path),
    "npz": lambda path: save(np.savez, path, x=np.array([None, {}]), y=np.ones((2, 9, 9))),
    "npz-complex": lambda path: save(np.savez, path, x=np.ones((2, 9, 9)) * 1j, y=np.ones((2, 9, 9))),
    "mat": lambda path: save(scipy.io.savemat, path, {"a": np.array([1, "b"], dtype=object), "u": np.ones((2, 9))}),
    "h5": lambda path: (
        h5py.File(path, "w").create_dataset("nu", data=["a"]).file.create_dataset("tensor", data=["b"]).file.close()
    ),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_object_arrays_are_refused(kind, tmp_path):
    OBJECTS[kind](tmp_path / kind)
    refused(tmp_path / kind, "expected")


@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_are_refused_and_not_run(tmp_path, zipped):
    path = tmp_path / "data.pt"
    torch.save({"x": NotATensor(), "y": torch.ones(3)}, path, _use_new_zipfile_serialization=zipped)
    refused(path, "pickled objects other than tensors")
    path.write_bytes(pickle.dumps(NotATensor()))
    refused(path, "not", "truncated")


def test_unknown_files_are_refused(tmp_path):
    (tmp_path / "data.csv").write_text("1,2,3\n" * 100)
    refused(tmp_path / "data.csv", "neither HDF5 nor")
    (tmp_path / "empty.pt").touch()
    refused(tmp_path / "empty.pt", "empty")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", "directory without samples")


def test_neuraloperators_own_loader_sees_the_same_tensors(tmp_path):
    from neuralop.data.datasets.pt_dataset import PTDataset

    for name, seed in (("train", 0), ("test", 1)):
        write_torch(tmp_path / f"darcy_{name}_12.pt", *fields(seed))
    theirs = PTDataset(tmp_path, "darcy", N, [N], 1, [1], 12, [12], channels_squeezed=True)
    ours = open_dataset(tmp_path / "darcy_train_12.pt")
    torch.testing.assert_close(ours.train[:][0], torch.stack([theirs.train_db[i]["x"] for i in range(N)]))
    torch.testing.assert_close(ours.test[:][1], torch.stack([theirs.test_dbs[12][i]["y"] for i in range(N)]))
    assert ours.metadata["test_split"] == "darcy_test_12.pt"


def test_test_file_given_or_found_beside(tmp_path):
    for name, seed in (("one.npz", 0), ("other.npz", 1)):
        write_npz(tmp_path / name, *fields(seed))
    dataset = open_dataset(tmp_path / "one.npz", ReadOptions(test=tmp_path / "other.npz", n_train=7, n_test=3))
    assert (dataset.n_train, dataset.n_test) == (7, 3)
    np.testing.assert_array_equal(dataset.test[:][0][:, 0], fields(1)[0][:3])


def test_splits_within_one_npz(tmp_path):
    (x, y), (a, b) = fields(0), fields(1, 4)
    np.savez(tmp_path / "d.npz", x_train=x, y_train=y, x_test=a, y_test=b)
    dataset = open_dataset(tmp_path / "d.npz")
    assert (dataset.n_train, dataset.n_test) == (10, 4)
    np.testing.assert_array_equal(dataset.test[:][1][:, 0], b)


def test_channels_are_told_from_grid(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.random((6, 3, 16)), y=rng.random((6, 1, 16)))
    dataset = open_dataset(tmp_path / "d.npz")
    assert (dataset.in_channels, dataset.out_channels, dataset.grid) == (3, 1, (16,))
    np.savez(tmp_path / "e.npz", x=rng.random((6, 32)), y=rng.random((6, 32)))
    assert open_dataset(tmp_path / "e.npz").grid == (32,)


def test_stride_and_resolution(tmp_path):
    x, y = fields()
    write_npz(tmp_path / "d.npz", x, y)
    strided = open_dataset(tmp_path / "d.npz", ReadOptions(stride=3))
    assert strided.grid == (4, 4)
    np.testing.assert_array_equal(strided.train[:][0][:, 0], x[:8, ::3, ::3])
    finer = open_dataset(tmp_path / "d.npz", ReadOptions(resolution=23, domain="box"))
    assert finer.grid == (23, 23)
    np.testing.assert_allclose(finer.train[0][1][0, ::2, 0], y[0, :, 0], atol=1e-6)
    np.testing.assert_allclose(finer.train[0][1][0, 1, 0], y[0, :2, 0].mean(), atol=1e-6)
    assert finer.train[[]][0].shape == (0, 1, 23, 23)
    with pytest.raises(InputError, match="stride of 12"):
        open_dataset(tmp_path / "d.npz", ReadOptions(stride=12))


def test_time_steps_of_the_users_choice(tmp_path):
    x, y = fields()
    write_pdebench_in_time(tmp_path / "d.h5", x, y)
    dataset = open_dataset(tmp_path / "d.h5", ReadOptions(steps=(2, 0)))
    np.testing.assert_array_equal(dataset.train[:][0][:, 0], y[:8])
    np.testing.assert_array_equal(dataset.train[:][1][:, 0], x[:8])
    for path, write in (
        (tmp_path / "a.h5", write_pdebench_by_seed),
        (tmp_path / "b.h5", write_the_well),
        (tmp_path / "c.mat", write_mat_in_time),
    ):
        write(path, x, y)
        with pytest.raises(InputError, match="step 9 was asked for"):
            open_dataset(path, ReadOptions(steps=(0, 9)))


def test_time_steps_of_a_steady_file_are_refused(tmp_path):
    write_npz(tmp_path / "d.npz", *fields())
    with pytest.raises(InputError, match="does not depend on time"):
        open_dataset(tmp_path / "d.npz", ReadOptions(steps=(0, 1)))


def test_fluid_fields_of_pdebench_are_channels(tmp_path):
    x, y = fields()
    with h5py.File(tmp_path / "d.h5", "w") as file:
        for i, name in enumerate(("density", "pressure", "Vx", "Vy")):
            file[name] = np.stack([x + i, y + i], axis=1)
    dataset = open_dataset(tmp_path / "d.h5")
    assert (dataset.in_channels, dataset.out_channels) == (4, 4)
    np.testing.assert_array_equal(dataset.train[:][1][:, 2], y[:8] + np.float32(2))
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["density"], file["Vy"] = np.ones((N, 2, 4, 4)), np.ones((N, 2, 3, 3))
    refused(tmp_path / "e.h5", "'Vy' differs in shape")


def test_the_well_vectors_tensors_coefficients_and_folders(tmp_path):
    x, y = fields()
    for split, files in (("train", 2), ("test", 1)):
        (tmp_path / "data" / split).mkdir(parents=True)
        for i in range(files):
            with h5py.File(tmp_path / "data" / split / f"part{i}.hdf5", "w") as file:
                file["t0_fields/p"] = np.stack([x, y], axis=1) + i
                file["t0_fields/coefficient"] = x
                file["t0_fields/coefficient"].attrs["time_varying"] = False
                file["t1_fields/v"] = np.stack([x, y], axis=1)[..., None] * np.array([2.0, 3.0])
                file["t2_fields/s"] = np.ones((N, 2, *GRID, 2, 2))
    dataset = open_dataset(tmp_path)
    assert (dataset.n_train, dataset.n_test) == (20, 10)
    assert (dataset.in_channels, dataset.out_channels) == (8, 7)
    assert dataset.metadata["fields"] == ["coefficient", "p", "v", "s"]
    a, b = dataset.train[[13, 2]]
    np.testing.assert_array_equal(a[0, 1], x[3] + np.float32(1))
    np.testing.assert_allclose(b[1, 1], 2 * y[2], rtol=1e-6)
    np.testing.assert_allclose(b[1, 2], 3 * y[2], rtol=1e-6)
    write_the_well(tmp_path / "data" / "train" / "part2.hdf5", x, y)
    with pytest.raises(InputError, match=r"part2.hdf5.*part0.hdf5"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("change", "word"), [({"stride": 0}, "stride"), ({"n_test": 0}, "n_test"), ({"resolution": 1}, "resolution")]
)
def test_bad_options_are_refused(change, word):
    with pytest.raises(InputError, match=word):
        ReadOptions(**change)


def test_holding_out_everything_is_refused(tmp_path):
    write_npz(tmp_path / "d.npz", *fields())
    with pytest.raises(InputError, match="more than the 10"):
        open_dataset(tmp_path / "d.npz", ReadOptions(n_test=10))
