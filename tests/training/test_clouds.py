"""Point clouds through the trainer: batches of bodies, their error, exact resume, precision, processes, bad input."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from deaths import Stop, assert_same_run, stop_after
from ellipsoids import GINO, write_clouds

from halfwave.data import PointSample, open_dataset, open_point_dataset
from halfwave.errors import InputError
from halfwave.models.graph import build_graph
from halfwave.training import RelativeL2, TrainConfig, evaluate, load, train
from halfwave.training.clouds import CloudEncoder, CloudSamples, fit_clouds
from halfwave.training.comparison import compare_steps
from halfwave.training.losses import CloudL2
from halfwave.training.records import read_metrics


@pytest.fixture(scope="module")
def clouds_file(tmp_path_factory):
    return write_clouds(tmp_path_factory.mktemp("clouds") / "ellipsoids.h5")


@pytest.fixture(scope="module")
def settings(clouds_file):
    return TrainConfig(
        data=str(clouds_file), model="GINO", arguments=GINO, epochs=2, batch_size=4, precision="full",
        latent_resolution=6, features=("velocity",), learning_rate=1e-2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("clouds-run")
    longer = settings.model_copy(update={"epochs": 20, "batch_size": 2, "learning_rate": 2e-2})
    return train(longer, run_dir, quiet=True), run_dir


def test_the_error_falls_and_the_record_has_no_h1(trained):
    result, run_dir = trained
    rows = read_metrics(run_dir)
    assert result.status == "finished"
    assert rows[-1]["train_loss"] < 0.7 * rows[0]["train_loss"]
    assert result.l2 < 0.8
    assert result.h1 is None
    assert all(row["test_h1"] is None for row in rows)
    assert result.peak_memory_bytes > result.activation_bytes > 0
    assert result.samples_per_second > 0


def test_the_saved_operator_answers_as_the_run_did(trained, clouds_file):
    result, run_dir = trained
    operator = load(run_dir / "model.safetensors")
    split = open_point_dataset(clouds_file).test
    found = evaluate(operator, CloudSamples(split, operator.encoder), batch_size=1)
    assert found == {"l2": pytest.approx(result.l2, rel=1e-5)}
    with torch.no_grad():
        errors = [
            float(RelativeL2()(operator(operator.encoder.collate([sample])).T[None], sample.pressure[None, None]))
            for sample in split
        ]
    assert np.mean(errors) == pytest.approx(result.l2, rel=1e-5)


def test_a_batch_is_the_mean_over_its_geometries(settings, clouds_file):
    dataset = open_point_dataset(clouds_file)
    encoder, _ = fit_clouds(dataset.train, 6, (1,))
    _, together = CloudSamples(dataset.train, encoder)[[2, 0, 5]]
    guess = torch.linspace(-1, 1, len(together.values)).unsqueeze(1)
    samples = [dataset.train[i] for i in (2, 0, 5)]
    for by_area in (False, True):
        expected = []
        for p, s in zip(guess[:, 0].split([20, 30, 33]), samples, strict=True):
            weights = s.areas if by_area else torch.ones_like(s.areas)
            squared = (weights * (p - s.pressure) ** 2).sum() / (weights * s.pressure**2).sum()
            expected.append(float(squared.sqrt()))
        assert CloudL2(by_area).per_sample(guess, together).tolist() == pytest.approx(expected, rel=1e-5)


def test_the_encoder_puts_bodies_into_the_unit_box_and_knows_inside_from_outside(clouds_file):
    dataset = open_point_dataset(clouds_file)
    encoder, _ = fit_clouds(dataset.train, 8, (1,))
    clouds, _ = CloudSamples(dataset.train, encoder)[:]
    assert clouds.points.min() > 0
    assert clouds.points.max() < 1
    assert clouds.latent_features.shape == (6, 8, 8, 8, 2)
    distance = clouds.latent_features[..., 0]
    assert (distance[:, 0, 0, 0] > 0).all()
    assert (distance[:, 3:5, 3:5, 3:5] < 0).all()
    velocities = clouds.latent_features[..., 1]
    assert (velocities == velocities[:, :1, :1, :1]).all()
    assert float(velocities[:, 0, 0, 0].mean()) == pytest.approx(0, abs=1e-5)  # fitted on train
    again = CloudEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert torch.equal(
        again.collate(list(dataset.test)).latent_features, encoder.collate(list(dataset.test)).latent_features
    )


def test_bodies_with_a_box_of_their_own_fill_it_and_say_where_it_is(clouds_file):
    """Moved and stretched, a body is the same points in the box; its corners tell the difference."""
    dataset = open_point_dataset(clouds_file)
    encoder, _ = fit_clouds(dataset.train, 8, (1,), own_box=True)
    sample = dataset.test[0]
    moved = replace(sample, points=sample.points * torch.tensor([2.0, 1.0, 0.5]) + 3)
    one, other = (encoder.collate([body]) for body in (sample, moved))
    assert one.latent_features.shape == (1, 8, 8, 8, encoder.latent_feature_channels) == (1, 8, 8, 8, 8)
    torch.testing.assert_close(one.points, other.points, rtol=0, atol=1e-5)
    torch.testing.assert_close(one.points.amin(0), torch.full((3,), 0.05 / 1.1), rtol=0, atol=1e-5)
    assert (one.latent_features[..., 1:7] != other.latent_features[..., 1:7]).all()
    corners = encoder.collate(list(dataset.train)).latent_features[:, 0, 0, 0, 1:7]
    torch.testing.assert_close(corners.mean(0), torch.zeros(6), rtol=0, atol=1e-4)  # fitted on train
    again = CloudEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert torch.equal(again.collate([moved]).latent_features, other.latent_features)
    assert torch.equal(again.collate([moved]).points, other.points)


def test_a_model_of_bodies_in_their_own_boxes_is_kept_with_them(settings, clouds_file, tmp_path):
    result = train(settings.model_copy(update={"own_box": True}), tmp_path, quiet=True)
    operator = load(tmp_path / "model.safetensors")
    split = open_point_dataset(clouds_file).test
    with torch.no_grad():
        errors = [
            float(RelativeL2()(operator(operator.encoder.collate([sample])).T[None], sample.pressure[None, None]))
            for sample in split
        ]
    assert np.mean(errors) == pytest.approx(result.l2, rel=1e-5)


def test_distances_and_neighbours_are_found_once_per_geometry(settings, tmp_path, monkeypatch):
    distances, graphs = [], []
    distance = CloudEncoder.distance
    monkeypatch.setattr(CloudEncoder, "distance", lambda *a: (distances.append(1), distance(*a))[1])
    monkeypatch.setattr("halfwave.models.graph_cache.build_graph", lambda *a: (graphs.append(1), build_graph(*a))[1])
    train(settings.model_copy(update={"epochs": 3}), tmp_path, quiet=True)
    # One geometry more than there are: a sample is tried before the run.
    assert len(distances) == 6 + 2 + 1
    assert len(graphs) == 2 * (6 + 2 + 1)


def test_without_a_cache_the_result_is_the_same(settings, tmp_path):
    lazy = settings.model_copy(update={"in_memory": False, "graph_cache": 0})
    a, b = train(settings, tmp_path / "a", quiet=True), train(lazy, tmp_path / "b", quiet=True)
    assert a.l2 == b.l2
    assert a.train_loss == b.train_loss


@pytest.mark.parametrize("updates", [1, 4])
def test_a_run_that_dies_resumes_bit_for_bit(settings, tmp_path, monkeypatch, updates):
    config = settings.model_copy(
        update={"precision": "schedule", "dtype": "bf16", "epochs": 3, "batch_size": 2, "checkpoint_steps": 1}
    )
    train(config, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        stop_after(patch, updates)
        with pytest.raises(Stop):
            train(config, tmp_path / "run", quiet=True)
    assert train(config, tmp_path / "run", quiet=True).status == "finished"
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("precision", ["amp", "half", "mixed"])
def test_every_policy_trains(settings, tmp_path, precision):
    config = settings.model_copy(
        update={"precision": precision, "dtype": "fp16", "area_weighted": True, "monitor": True}
    )
    result = train(config, tmp_path, quiet=True)
    assert np.isfinite(result.l2)


def test_batches_larger_than_the_data_and_bodies_of_one_point(settings, tmp_path):
    path = write_clouds(tmp_path / "few.h5", sizes=(1, 25), tests=(1,))
    result = train(settings.model_copy(update={"data": str(path), "batch_size": 50}), tmp_path / "run", quiet=True)
    assert result.status == "finished"
    assert np.isfinite(result.l2)


def test_steps_of_two_policies_are_compared_side_by_side(settings, clouds_file):
    configs = {name: settings.model_copy(update={"precision": name, "dtype": "bf16"}) for name in ("full", "mixed")}
    found = compare_steps(configs, open_point_dataset(clouds_file), steps=1, warm_up=1)
    assert found["mixed"]["activation_bytes"] < found["full"]["activation_bytes"]
    assert found["mixed"]["samples_per_second"] > 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "FNO", "arguments": {"n_modes": [4, 4]}}, "FNO cannot be applied to .*point clouds"),
        ({"features": ("speed",)}, "no parameter 'speed': expected one of length, velocity"),
        ({"loss": "h1"}, "loss 'h1' is not defined on point clouds: expected l2"),
        ({"latent_resolution": 3}, "a grid of 3x3x3 is too small for fno_n_modes"),
        ({"test_resolutions": (4,)}, "test_resolutions are for fields on a grid"),
        ({"resolution": 8}, "neither a resolution"),
        ({"arguments": {**GINO, "gno_coord_dim": 2}}, "GINO cannot be applied to .*ellipsoids.h5"),
        ({"arguments": {**GINO, "width": 2}}, "GINO cannot be built"),
    ],
)
def test_what_clouds_do_not_have_is_refused(settings, tmp_path, values, message):
    with pytest.raises(InputError, match=message):
        train(settings.model_copy(update=values), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"latent_resolution": 8},
        {"features": ("velocity",)},
        {"graph_cache": 0},
        {"area_weighted": True},
        {"own_box": True},
    ],
)
def test_what_grids_do_not_have_is_refused(config, tmp_path, values):
    with pytest.raises(InputError, match=r"is for point clouds: .*smoothing\.h5 holds fields on a grid"):
        train(config.model_copy(update=values), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("split", ["train", "test"])
def test_nan_coordinates_are_refused_with_the_sample(settings, tmp_path, split):
    path = write_clouds(tmp_path / "nan.h5")
    with h5py.File(path, "r+") as file:
        file[f"{split}/points"][int(file[f"{split}/offsets"][1]) + 3, 1] = np.nan
    with pytest.raises(InputError, match=f"{split}/points holds NaN or infinity in sample 1"):
        train(settings.model_copy(update={"data": str(path)}), tmp_path / "run", quiet=True)


def test_a_sample_with_other_parameters_is_refused(trained):
    operator = load(trained[1] / "model.safetensors")
    ones = torch.ones(4, 3)
    sample = PointSample(ones, ones, torch.ones(4), torch.zeros(0), torch.ones(5))
    with pytest.raises(InputError, match="a sample has 5 parameters: expected the 2 of the training data"):
        operator.encoder.collate([sample])


def test_a_points_file_is_not_a_grid_and_the_reverse(clouds_file, data_file):
    with pytest.raises(InputError, match="holds point clouds; fields on a grid are expected"):
        open_dataset(clouds_file)
    with pytest.raises(InputError, match="holds fields on a grid; point clouds are expected"):
        open_point_dataset(data_file)


def test_a_pressure_in_units_of_the_wind_does_not_depend_on_it(settings, clouds_file, tmp_path):
    """Trained on p/V^2, the answer at twice the wind is four times that at the first, exactly; the file keeps it."""
    scaled = settings.model_copy(update={"features": (), "speed": "velocity"})
    result = train(scaled, tmp_path / "run", quiet=True)
    operator = load(tmp_path / "run" / "model.safetensors")
    sample = open_point_dataset(clouds_file).test[0]
    double = PointSample(
        sample.points, sample.normals, sample.areas, sample.pressure, sample.parameters * torch.tensor([1.0, 2.0])
    )
    with torch.no_grad():
        slow, fast = (operator(operator.encoder.collate([body])) for body in (sample, double))
    assert torch.equal(fast, 4 * slow)
    train_split = open_point_dataset(clouds_file).train
    mean = torch.cat([s.pressure / s.parameters[1] ** 2 for s in train_split]).mean()
    torch.testing.assert_close(operator.y_normalizer.mean[0], mean, rtol=1e-5, atol=1e-6)
    assert result.l2 is not None
    with pytest.raises(InputError, match="has no parameter 'wind'"):
        train(scaled.model_copy(update={"speed": "wind"}), tmp_path / "other", quiet=True)
