"""Pictures: they are drawn for every kind of dataset, and they show the data."""

import h5py
import matplotlib.image
import numpy as np
import pytest

from halfwave.data import Ahmed, Darcy, ShallowWater, generate, live_dataset, open_any
from halfwave.data.preview import save_preview
from halfwave.errors import InputError


def colours(picture):
    """How many different colours a picture has: a blank or broken one has few."""
    pixels = matplotlib.image.imread(picture)
    assert pixels.ndim == 3
    return len(np.unique((pixels[..., :3] * 31).astype(int).reshape(-1, 3), axis=0))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_fields_in_every_dimension(tmp_path, dim):
    path = generate(Darcy(resolution=12, dim=dim), tmp_path / "d.h5", n_train=2, n_test=1)
    assert colours(save_preview(path, tmp_path / "d.png")) > (10 if dim == 1 else 60)


def test_several_channels_on_the_sphere(tmp_path):
    assert colours(save_preview(live_dataset(ShallowWater(resolution=16), n_train=1), tmp_path / "s.png")) > 60


def test_bodies_as_surfaces_and_other_clouds_as_points(tmp_path):
    path = generate(Ahmed(points=200), tmp_path / "a.h5", n_train=2, n_test=1)
    assert colours(save_preview(path, tmp_path / "a.png", samples=1)) > 60
    with h5py.File(path) as file, h5py.File(tmp_path / "b.h5", "w") as other:
        for split in ("train", "test"):
            file.copy(split, other)
    assert colours(save_preview(open_any(tmp_path / "b.h5"), tmp_path / "b.png", samples=1)) > 60


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(InputError, match="samples is 0"):
        save_preview(tmp_path / "d.h5", tmp_path / "d.png", samples=0)
    with pytest.raises(InputError, match="does not exist"):
        save_preview(tmp_path / "d.h5", tmp_path / "d.png")
