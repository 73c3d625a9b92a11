"""Samples from a solver while training: new ones each epoch, the same ones whenever the run is resumed."""

import pytest
import torch
from deaths import Stop, assert_same_run, stop_after

from halfwave.errors import InputError
from halfwave.training import TrainConfig, train
from halfwave.training.problem import open_data


@pytest.fixture
def settings():
    return TrainConfig(
        data="live:shallow-water", resolution=8, n_train=4, n_test=2, model="SFNO",
        arguments={"n_modes": [4, 8], "hidden_channels": 4, "n_layers": 1},
        epochs=3, batch_size=2, precision="full", normalise=False, checkpoint_steps=1,
    )  # fmt: skip


def test_a_run_that_dies_resumes_with_the_same_samples(settings, tmp_path, monkeypatch):
    train(settings, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(Stop):
            train(settings, tmp_path / "run", quiet=True)
    assert train(settings, tmp_path / "run", quiet=True).status == "finished"
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_every_epoch_has_samples_of_its_own_and_the_test_split_stays(settings):
    dataset = open_data(settings)
    first, tested = dataset.train[:][0], dataset.test[:][0]
    dataset.train.set_epoch(1)
    second = dataset.train[:][0]
    assert not any(torch.equal(a, b) for a in first for b in second)
    assert torch.equal(dataset.test[:][0], tested)
    dataset.train.set_epoch(0)
    assert torch.equal(dataset.train[:][0], first)


def test_the_loop_sets_the_epoch(settings, tmp_path, monkeypatch):
    epochs = []
    monkeypatch.setattr("halfwave.data.live.LiveSplit.set_epoch", lambda split, epoch: epochs.append(epoch))
    train(settings, tmp_path, quiet=True)
    assert epochs == [0, 1, 2]


def test_other_live_data_is_another_run(settings, tmp_path):
    train(settings, tmp_path, quiet=True)
    with pytest.raises(InputError, match=r"holds a run with other settings \(n_train: 4 -> 3\)"):
        train(settings.model_copy(update={"n_train": 3}), tmp_path, quiet=True)
    with pytest.raises(InputError, match="live:darcy is not the file that"):
        train(settings.model_copy(update={"data": "live:darcy"}), tmp_path, quiet=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"subsample": 2}, "subsample is for files: live:shallow-water is made while training"),
        ({"domain": "torus"}, "domain is for files: live:shallow-water is made while training"),
        ({"test_data": "x.h5"}, "test_data is for files"),
        ({"steps": (0, 1)}, "steps is for files"),
        ({"data": "live:weather"}, "there is no dataset 'weather'; accepted: darcy"),
        ({"data": "live:car", "resolution": 100}, "live data are fields on a grid: car makes point clouds"),
        ({"resolution": 4}, "needs at least 8 latitudes"),
    ],
)
def test_what_live_data_does_not_have_is_refused(settings, tmp_path, values, message):
    with pytest.raises(InputError, match=message):
        train(settings.model_copy(update=values), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
