"""Errors and training have no units: data times any factor give the same numbers, in every domain."""

import json
import math

import h5py
import numpy as np
import pytest
import torch
from ellipsoids import GINO, write_clouds
from hypothesis import given, settings
from hypothesis import strategies as st

from halfwave.data import Normalizer
from halfwave.domains import Box, Cloud, Sphere, Torus
from halfwave.errors import InputError
from halfwave.training import TrainConfig, evaluate, load, train
from halfwave.training.clouds import Pressures
from halfwave.training.losses import build_loss
from halfwave.training.problem import open_data
from halfwave.training.records import read_metrics

DOMAINS = {
    "box": (Box((1.0, 1.0)), (12, 10)),
    "box-cells": (Box((1.0,), "cells"), (16,)),
    "torus": (Torus((2 * math.pi,) * 3), (8, 6, 8)),
    "sphere": (Sphere(), (9, 16)),
    "sphere-gauss": (Sphere("legendre-gauss"), (8, 16)),
    "cloud": (Cloud(), (30,)),
}
LOSSES = [(name, loss) for name in DOMAINS for loss in ("l2", "h1") if (name, loss) != ("cloud", "h1")]
FACTORS = (1e-30, 1e30)


def batch(name):
    """Two samples of noise and a guess, as the loss of a domain takes them; the target as a function of the factor."""
    domain, grid = DOMAINS[name]
    generator = torch.Generator().manual_seed(0)
    y, noise = (torch.randn(2, 1, *grid, generator=generator) for _ in range(2))
    if domain.has_grid:
        return y + 0.3 * noise, lambda p, factor: (p * factor, y * factor)
    points, areas = y.reshape(-1, 1), torch.rand(y.numel(), generator=generator)
    offsets = torch.tensor([0, 20, y.numel()])
    guess = (y + 0.3 * noise).reshape(-1, 1)
    return guess, lambda p, factor: (p * factor, Pressures(points * factor, areas, offsets))


def errors_and_gradient(name, loss, factor):
    """Per-sample errors of data times `factor`, and the gradient with respect to the guess before that factor."""
    guess, scaled = batch(name)
    guess.requires_grad_()
    errors = build_loss(loss, DOMAINS[name][0], by_area=name == "cloud").per_sample(*scaled(guess, factor))
    errors.sum().backward()
    return errors.detach(), guess.grad


@pytest.mark.parametrize(("name", "loss"), LOSSES)
@settings(max_examples=12, deadline=None)
@given(exponent=st.floats(-30, 30))
def test_errors_and_gradients_have_no_units(name, loss, exponent):
    expected, slope = errors_and_gradient(name, loss, 1.0)
    found, gradient = errors_and_gradient(name, loss, 10.0**exponent)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    assert float(slope.abs().max()) > 0
    torch.testing.assert_close(gradient, slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "loss"), LOSSES)
def test_a_power_of_two_changes_no_bit(name, loss):
    """Also where the guess is 1e30 times as large as the target, as that of a model which knows no units is."""
    for found, expected in zip(
        errors_and_gradient(name, loss, 2.0**-90), errors_and_gradient(name, loss, 1.0), strict=True
    ):
        assert torch.equal(found, expected)
    guess, scaled = batch(name)
    _, target = scaled(guess, 1e-30)
    far = build_loss(loss, DOMAINS[name][0])(guess, target)
    assert 1e29 < float(far) < 1e33


@pytest.mark.parametrize(("name", "loss"), LOSSES)
def test_a_zero_target_has_no_error_and_no_gradient(name, loss):
    guess, scaled = batch(name)
    _, target = scaled(guess, 1.0)
    values = target if torch.is_tensor(target) else target.values
    values[: 1 if torch.is_tensor(target) else 20] = 0
    guess.requires_grad_()
    chosen = build_loss(loss, DOMAINS[name][0])
    errors = chosen.per_sample(guess, target)
    errors.sum().backward()
    assert errors.tolist() == [0.0, pytest.approx(errors[1].item())]
    assert errors[1] > 0
    assert chosen.counted(target).tolist() == [False, True]
    assert torch.isfinite(guess.grad).all()
    own = guess.grad[:1] if torch.is_tensor(target) else guess.grad[:20]
    assert not own.any()


def write_fields(path, factor, domain, grid, zeros=(), n_train=6, n_test=4):
    """Smooth inputs; outputs times `factor`, zero for the test samples `zeros`."""
    rng = np.random.default_rng(0)
    axes = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in grid), indexing="ij")
    waves = np.stack([np.sin(axes[0]), np.cos(axes[1]), np.sin(axes[0] + axes[1])])
    with h5py.File(path, "w") as file:
        file.attrs["metadata"] = json.dumps({"domain": domain.to_dict()})
        for split, count in (("train", n_train), ("test", n_test)):
            x = np.tensordot(rng.standard_normal((count, 1, 3)), waves, 1)
            y = factor * (x**2 + 0.5)
            y[list(zeros)] = 0
            file[f"{split}/x"], file[f"{split}/y"] = (x * factor).astype(np.float32), y.astype(np.float32)
    return path


def write_scaled_clouds(path, factor):
    write_clouds(path)
    with h5py.File(path, "r+") as file:
        for split in ("train", "test"):
            values = file[f"{split}/pressure"][:] * np.float32(factor)
            file[f"{split}/pressure"][:] = values
    return path


FNO = {"n_modes": [4, 4], "hidden_channels": 6, "n_layers": 2}
RUNS = {
    "box": ("FNO", FNO, {"loss": "h1"}, Box((1.0, 1.0))),
    "torus": ("FNO", FNO, {"loss": "h1", "precision": "mixed", "dtype": "bf16"}, Torus((1.0, 2.0))),
    "sphere": ("SFNO", {**FNO, "n_modes": [4, 8]}, {"loss": "l2"}, Sphere()),
    "cloud": ("GINO", GINO, {"latent_resolution": 6, "area_weighted": True}, Cloud()),
}


def run(kind, factor, tmp_path):
    model, arguments, options, domain = RUNS[kind]
    path = tmp_path / f"{factor:g}.h5"
    write_fields(path, factor, domain, (9, 16)) if domain.has_grid else write_scaled_clouds(path, factor)
    config = TrainConfig(
        data=str(path), model=model, arguments=arguments, epochs=2, batch_size=2, **{"precision": "full", **options}
    )
    result = train(config, tmp_path / f"run-{factor:g}", quiet=True)
    return [*(row["train_loss"] for row in result.rows), result.l2, result.h1 or 0.0]


@pytest.mark.parametrize("kind", RUNS)
def test_a_training_has_no_units(kind, tmp_path):
    figures = run(kind, 1.0, tmp_path)
    assert figures[1] < figures[0], "it learns"
    for factor in FACTORS:
        assert run(kind, factor, tmp_path) == pytest.approx(figures, rel=1e-4)


@pytest.mark.parametrize("factor", [1.0, 1e-8, 1e-10, 1e-12, 1e-25])
def test_the_reported_error_does_not_depend_on_units(factor, tmp_path, model):
    """An untrained model that answers 0 is 100% off, whatever the largest value of y."""
    dataset = open_data(TrainConfig(data=str(write_fields(tmp_path / "d.h5", factor, Torus((1, 1)), (10, 12)))))

    class Nothing(torch.nn.Linear):
        def forward(self, x):
            return 0 * x

    assert evaluate(Nothing(1, 1), dataset.test) == {"l2": pytest.approx(1.0), "h1": pytest.approx(1.0)}


def test_zero_targets_are_left_out_counted_and_said(tmp_path, capsys):
    path = write_fields(tmp_path / "d.h5", 1e-12, Torus((1, 1)), (10, 12), zeros=(1,))
    without = write_fields(tmp_path / "e.h5", 1e-12, Torus((1, 1)), (10, 12), zeros=())
    with h5py.File(without, "r+") as file:
        for name in ("x", "y"):
            values = np.delete(file[f"test/{name}"][:], 1, axis=0)
            del file[f"test/{name}"]
            file[f"test/{name}"] = values
    config = TrainConfig(data=str(path), arguments=FNO, epochs=2, batch_size=2, precision="full")
    result = train(config, tmp_path / "run")
    said = capsys.readouterr().err
    assert "1 of 6 train targets are zero: left out of the mean errors" in said
    assert said.count("1 of 4 test targets are zero: left out of the mean errors") == 1
    assert result.zero_targets == 1
    assert [row["zero_targets"] for row in read_metrics(tmp_path / "run")] == [1, 1]
    operator = load(tmp_path / "run" / "model.safetensors")
    others = evaluate(operator, open_data(config.model_copy(update={"data": str(without)})).test)
    assert (result.l2, result.h1) == pytest.approx((others["l2"], others["h1"]), rel=1e-6)
    found = evaluate(operator, open_data(config).test)
    assert found == {"l2": pytest.approx(result.l2), "h1": pytest.approx(result.h1), "zero_targets": 1}


def test_what_float32_does_not_resolve_beside_the_data_counts_as_zero(tmp_path):
    path = write_fields(tmp_path / "d.h5", 1e6, Torus((1, 1)), (10, 12))
    with h5py.File(path, "r+") as file:
        file["test/y"][2] = 0.01
        file["test/y"][3] = 10.0
    dataset = open_data(TrainConfig(data=str(path)))
    found = evaluate(torch.nn.Conv2d(1, 1, 1), dataset.test)
    assert found["zero_targets"] == 1


def test_targets_that_are_all_zero_are_refused_before_training(tmp_path):
    path = write_fields(tmp_path / "d.h5", 1.0, Torus((1, 1)), (10, 12))
    config = TrainConfig(data=str(path), arguments=FNO, epochs=2, batch_size=2, precision="full")
    for split in ("test", "train"):
        with h5py.File(path, "r+") as file:
            kept = file[f"{split}/y"][:]
            file[f"{split}/y"][:] = 0
        with pytest.raises(InputError, match=f"all targets are zero in the {split} split"):
            train(config, tmp_path / split, quiet=True)
        if split == "test":
            with pytest.raises(InputError, match="all targets are zero"):
                evaluate(torch.nn.Conv2d(1, 1, 1), open_data(config).test)
        with h5py.File(path, "r+") as file:
            file[f"{split}/y"][:] = kept


def test_one_target_that_is_not_zero_is_enough_to_train_on(tmp_path):
    """The few samples that the trainer looks at first may all be zero."""
    path = write_fields(tmp_path / "d.h5", 1.0, Torus((1, 1)), (10, 12), n_train=20)
    with h5py.File(path, "r+") as file:
        file["train/y"][:17], file["train/y"][18:] = 0, 0
    config = TrainConfig(data=str(path), arguments=FNO, epochs=1, batch_size=4, precision="full")
    result = train(config, tmp_path / "run", quiet=True)
    assert 0.01 < result.train_loss < 10, "the mean over the one sample that has a loss"


@pytest.mark.parametrize("factor", FACTORS)
def test_normalizers_have_no_units(factor):
    """A channel that varies, one that is constant, one that is zero."""
    values = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0)) + 1
    values[:, 1], values[:, 2] = 7.0, 0.0
    one, other = Normalizer.fit([values]), Normalizer.fit([values * factor])
    torch.testing.assert_close(other.mean / factor, one.mean)
    torch.testing.assert_close(other.std / factor, one.std)
    torch.testing.assert_close(other.encode(values * factor), one.encode(values))
    assert not one.encode(values)[:, 1:].any()
