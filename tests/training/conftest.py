"""A small dataset and a small model for the tests of training."""

import h5py
import numpy as np
import pytest
import torch

from halfwave.models import build_model
from halfwave.training import TrainConfig

ARGUMENTS = {"n_modes": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2}


def _write_dataset(path, n_train=12, n_test=4, grid=(10, 12), seed=0, offset=0.0):
    """x is a sum of three waves and y its smoothed square: learnable, and cheap to make."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in grid), indexing="ij")
    waves = np.stack([np.sin(axes[0]), np.cos(axes[1]), np.sin(axes[0] + axes[1])])
    with h5py.File(path, "w") as file:
        file.attrs["metadata"] = '{"equation": "smoothing"}'
        for split, count in (("train", n_train), ("test", n_test)):
            x = np.tensordot(rng.standard_normal((count, 1, 3)), waves, 1).astype(np.float32) + np.float32(offset)
            y = sum(np.roll(x**2, shift, axis) for axis in (2, 3) for shift in (-1, 0, 1)) / 6 + 0.5
            file[f"{split}/x"], file[f"{split}/y"] = x, y.astype(np.float32)
    return path


@pytest.fixture(scope="session")
def write_dataset():
    """The function that writes a dataset file, for tests that need one of their own."""
    return _write_dataset


@pytest.fixture(scope="session")
def data_file(tmp_path_factory):
    return _write_dataset(tmp_path_factory.mktemp("data") / "smoothing.h5")


@pytest.fixture(autouse=True)
def _few_pictures(monkeypatch):
    """A picture takes as long as a small run: only the runs of module fixtures draw one."""
    monkeypatch.setattr("halfwave.report.draw_curves", lambda run_dir: None)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_model("FNO", dict(ARGUMENTS))


@pytest.fixture
def config(data_file):
    return TrainConfig(data=str(data_file), model="FNO", arguments=ARGUMENTS, epochs=2, batch_size=4, precision="full")
