"""Our own point-cloud files: every kind of damage refused."""

import pickle

import h5py
import numpy as np
import pytest

from halfwave.data import open_dataset, open_point_dataset
from halfwave.errors import InputError


def write(path, change=None):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for split in ("train", "test"):
            group = file.create_group(split)
            group["offsets"] = np.array([0, 5, 9])
            group["points"], group["normals"] = rng.random((9, 3)), rng.random((9, 3))
            group["areas"], group["pressure"] = rng.random(9), rng.random(9)
            group["parameters"] = rng.random((2, 4))
        if change:
            change(file)
    return path


def test_clouds_of_different_sizes(tmp_path):
    path = write(tmp_path / "d.h5")
    split = open_point_dataset(path).train
    assert [len(sample.points) for sample in split] == [5, 4]
    with h5py.File(path) as file:
        np.testing.assert_allclose(split[-1].pressure, file["train/pressure"][5:], rtol=1e-6)
        np.testing.assert_allclose(split[1].parameters, file["train/parameters"][1], rtol=1e-6)
    with pytest.raises(IndexError):
        split[2]
    assert len(pickle.loads(pickle.dumps(split))[0].areas) == 5


def put(key, values):
    def change(file):
        del file[key]
        if values is not None:
            file[key] = values

    return change


DAMAGE = {
    "no-pressure": (put("train/pressure", None), "no dataset 'train/pressure'"),
    "no-test": (put("test", None), "no dataset 'test/points'"),
    "offsets": (put("train/offsets", np.array([0, 5, 5])), "offsets must be 0"),
    "offsets-rank": (put("train/offsets", np.array([[0, 9]])), "offsets must be 0"),
    "count": (put("train/areas", np.ones(8)), "train/areas has shape (8,)"),
    "rank": (put("train/points", np.ones((9, 2))), "train/points has shape (9, 2)"),
    "parameters": (put("train/parameters", np.ones((3, 4))), "2 rows"),
    "objects": (put("train/normals", np.array([b"a"] * 9, dtype=h5py.string_dtype())), "real numbers"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(tmp_path, kind):
    change, message = DAMAGE[kind]
    with pytest.raises(InputError) as caught:
        open_point_dataset(write(tmp_path / "d.h5", change))
    assert message in str(caught.value)
    assert "d.h5" in str(caught.value)


def test_nan_is_refused_when_read(tmp_path):
    def change(file):
        file["train/pressure"][7] = np.nan

    split = open_point_dataset(write(tmp_path / "d.h5", change)).train
    assert len(split[0].points) == 5
    with pytest.raises(InputError, match="train/pressure holds NaN or infinity in sample 1"):
        split[1]


def test_the_wrong_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="point clouds"):
        open_dataset(write(tmp_path / "d.h5"))
