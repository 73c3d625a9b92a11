"""Reading back, and every kind of damage refused in one line that names the file."""

import json
import pickle

import h5py
import numpy as np
import pytest
import torch

from halfwave.data import open_dataset
from halfwave.errors import InputError


def write(path, *, shape=(6, 2, 5, 4), out=1, change=None):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file.attrs["metadata"] = json.dumps({"name": "test"})
        for split in ("train", "test"):
            file[f"{split}/x"] = rng.standard_normal(shape).astype(np.float32)
            file[f"{split}/y"] = rng.standard_normal((shape[0], out, *shape[2:])).astype(np.float32)
        if change:
            change(file)
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "d.h5")


def test_shapes_and_metadata(path):
    dataset = open_dataset(path)
    assert dataset.metadata == {"name": "test"}
    assert (dataset.n_train, dataset.n_test, len(dataset.train)) == (6, 6, 6)
    assert (dataset.in_channels, dataset.out_channels, dataset.grid) == (2, 1, (5, 4))


@pytest.mark.parametrize(
    "index", [slice(1, 4), slice(None, None, 2), [4, 0, 0, 5], np.array([2]), torch.tensor([3, 1]), [-1], []]
)
def test_batches_are_the_files_rows(path, index):
    with h5py.File(path) as file:
        expected = file["test/x"][:][index if not isinstance(index, list) else np.array(index, dtype=int)]
    x, y = open_dataset(path).test[index]
    assert x.dtype == y.dtype == torch.float32
    assert len(x) == len(y)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_single_sample_iteration_and_range(path):
    split = open_dataset(path).train
    assert split[0][0].shape == (2, 5, 4)
    assert len(list(split)) == 6
    with pytest.raises(IndexError):
        split[6]
    with pytest.raises(TypeError):
        split["x"]


def test_survives_pickling_into_loader_processes(path):
    dataset = open_dataset(path)
    expected = dataset.train[2][0]
    assert torch.equal(pickle.loads(pickle.dumps(dataset)).train[2][0], expected)


@pytest.mark.parametrize("shape", [(3, 1, 8), (3, 1, 4, 4, 4)])
def test_one_and_three_dimensions(tmp_path, shape):
    assert open_dataset(write(tmp_path / "d.h5", shape=shape)).grid == shape[2:]


def replace(key, values):
    def change(file):
        del file[key]
        if values is not None:
            file[key] = values

    return change


DAMAGE = {
    "no-test-group": (replace("test", None), "no dataset 'test/x'"),
    "no-y": (replace("train/y", None), "no dataset 'train/y'"),
    "low-rank": (replace("train/x", np.zeros((6, 5), np.float32)), "train has x of shape 6 x 5"),
    "high-rank": (replace("train/x", np.zeros((6, 1, 2, 2, 2, 2), np.float32)), "1 to 3 grid axes"),
    "counts-differ": (replace("train/y", np.zeros((5, 1, 5, 4), np.float32)), "agree in samples and grid"),
    "grids-differ": (replace("train/y", np.zeros((6, 1, 4, 4), np.float32)), "agree in samples and grid"),
    "no-samples": (
        lambda file: (
            replace("train/x", np.zeros((0, 1, 4, 4)))(file),
            replace("train/y", np.zeros((0, 1, 4, 4)))(file),
        ),
        "no data in it",
    ),
    "channels-differ": (replace("test/x", np.zeros((6, 3, 5, 4), np.float32)), "do not fit together"),
    "object-type": (replace("train/x", np.array([b"a", b"b"], dtype=h5py.string_dtype())), "real numbers"),
    "complex-type": (replace("train/x", np.zeros((6, 1, 5, 4), complex)), "real numbers"),
    "metadata-not-json": (lambda file: file.attrs.__setitem__("metadata", "{"), "metadata"),
    "metadata-not-object": (lambda file: file.attrs.__setitem__("metadata", "[1]"), "metadata"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_wrong_content_is_refused(tmp_path, damage):
    change, message = DAMAGE[damage]
    path = write(tmp_path / "d.h5", change=change)
    with pytest.raises(InputError) as caught:
        open_dataset(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "empty", "truncated", "not-hdf5", "pickle", "directory"])
def test_unreadable_files_are_refused(path, kind):
    content = path.read_bytes()
    if kind == "missing":
        path = path.with_name("none.h5")
    elif kind == "directory":
        path = path.parent
    else:
        path.write_bytes(
            {
                "empty": b"",
                "truncated": content[: len(content) // 2],
                "not-hdf5": b"hello" * 99,
                "pickle": pickle.dumps([1]),
            }[kind]
        )
    with pytest.raises(InputError) as caught:
        open_dataset(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    if kind in ("empty", "truncated"):
        assert kind in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("which", ["x", "y"])
def test_nan_and_infinity_are_refused_when_read(tmp_path, which, value):
    def change(file):
        file[f"train/{which}"][4, 0, 1, 1] = value

    split = open_dataset(write(tmp_path / "d.h5", change=change)).train
    assert len(split[:4][0]) == 4
    with pytest.raises(InputError, match=rf"train/{which} holds NaN or infinity in sample 4"):
        split[[5, 4]]
