"""Pictures: they are drawn for every kind of dataset, and they show the data."""

import h5py
import matplotlib.image
import numpy as np
import pytest

from halfwave.commands.data import preview_of
from halfwave.data import Ahmed, Darcy, ShallowWater, generate, live_dataset, open_any
from halfwave.report.preview import save_preview


def colours(dataset, picture):
    """How many different colours the picture of a dataset has: a blank or broken one has few."""
    pixels = matplotlib.image.imread(save_preview(preview_of(dataset), picture))
    assert pixels.ndim == 3
    return len(np.unique((pixels[..., :3] * 31).astype(int).reshape(-1, 3), axis=0))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_fields_in_every_dimension(tmp_path, dim):
    path = generate(Darcy(resolution=12, dim=dim), tmp_path / "d.h5", n_train=2, n_test=1)
    assert colours(open_any(path), tmp_path / "d.png") > (10 if dim == 1 else 60)


def test_several_channels_on_the_sphere(tmp_path):
    dataset = live_dataset(ShallowWater(resolution=16), n_train=1)
    shown = preview_of(dataset)
    assert shown.is_map
    assert [len(shown.inputs), len(shown.outputs), len(shown.values[0])] == [3, 3, 6]
    assert colours(dataset, tmp_path / "s.png") > 60


def test_a_preview_has_the_first_samples_and_says_how_many_there_are(tmp_path):
    dataset = open_any(generate(Darcy(resolution=12), tmp_path / "d.h5", n_train=5, n_test=1))
    shown = preview_of(dataset)
    assert shown.title == "darcy: 5 train, 1 test, 12 x 12"
    assert len(shown.values) == 3
    for i, values in enumerate(shown.values):
        np.testing.assert_array_equal(values, np.concatenate([side.numpy() for side in dataset.train[i]]))


def test_bodies_as_surfaces_and_other_clouds_as_points(tmp_path):
    path = generate(Ahmed(points=200), tmp_path / "a.h5", n_train=1, n_test=1)
    assert colours(open_any(path), tmp_path / "a.png") > 60
    with h5py.File(path) as file, h5py.File(tmp_path / "b.h5", "w") as other:
        for split in ("train", "test"):
            file.copy(split, other)
    assert colours(open_any(tmp_path / "b.h5"), tmp_path / "b.png") > 60
