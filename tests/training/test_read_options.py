"""How a file is read is a part of the run: the same on resume and in evaluation."""

import pytest
import torch

from halfwave.errors import InputError
from halfwave.training import TrainConfig, evaluate, load, train
from halfwave.training.config import read_config
from halfwave.training.problem import open_data


def test_the_options_reach_the_data(config, write_dataset, tmp_path):
    other = write_dataset(tmp_path / "other.h5", n_train=3, n_test=3, seed=5)
    asked = config.model_copy(update={"subsample": 2, "n_train": 5, "n_test": 2, "test_data": str(other)})
    dataset, whole = open_data(asked), open_data(config)
    assert (dataset.n_train, dataset.n_test, dataset.grid) == (5, 2, (5, 6))
    assert torch.equal(dataset.train[:][0], whole.train[:5][0][..., ::2, ::2])
    assert torch.equal(
        dataset.test[:][1], open_data(config.model_copy(update={"data": str(other)})).test[:2][1][..., ::2, ::2]
    )
    assert open_data(config.model_copy(update={"resolution": 8})).grid == (8, 8)


def test_a_run_keeps_them_for_resume_and_evaluation(config, tmp_path):
    asked = config.model_copy(update={"subsample": 2, "n_train": 4})
    result = train(asked, tmp_path, quiet=True)
    kept = read_config(tmp_path / "config.json")
    assert kept.read_options() == asked.read_options()
    dataset = open_data(kept)
    assert dataset.grid == (5, 6)
    found = evaluate(load(tmp_path / "model.safetensors"), dataset.test)
    assert found["l2"] == pytest.approx(result.l2, rel=1e-5)
    with pytest.raises(InputError, match=r"other settings \(subsample: 2 -> 1\)"):
        train(asked.model_copy(update={"subsample": 1}), tmp_path, quiet=True)


def test_another_test_file_is_not_the_same_data(config, write_dataset, tmp_path):
    files = [write_dataset(tmp_path / f"{seed}.h5", seed=seed) for seed in (7, 8)]
    train(config.model_copy(update={"test_data": str(files[0])}), tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="is not the file that"):
        train(config.model_copy(update={"test_data": str(files[1])}), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("values", [{"subsample": 0}, {"resolution": 1}, {"n_train": 0}, {"steps": (1,)}])
def test_bad_options_are_named(values):
    with pytest.raises(InputError, match=next(iter(values))):
        TrainConfig(data="x.h5", **values)


def test_steps_of_a_file_without_time(config, tmp_path):
    with pytest.raises(InputError, match="does not depend on time"):
        train(config.model_copy(update={"steps": (0, 1)}), tmp_path / "run", quiet=True)
