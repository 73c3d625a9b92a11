"""What acted in training is in the files of a run, and acts in whatever is done with them."""

import json

import pytest
import torch
from deaths import Stop, assert_same_run, stop_after, tensors_of

from halfwave.cli import run
from halfwave.errors import InputError
from halfwave.models import set_precision
from halfwave.models.settling import settled_stabilizers
from halfwave.precision import Policy
from halfwave.training import TrainConfig, evaluate, load, train
from halfwave.training.checkpointing import Checkpoints
from halfwave.training.problem import open_data
from halfwave.training.sealed import read_sealed, write_sealed

TANH = {"blocks.0.conv": "tanh"}


@pytest.fixture(scope="module")
def settings(data_file):
    """The paper's method on a backend that needs the paper's tanh; checkpoints within epochs."""
    return TrainConfig(
        data=str(data_file),
        arguments={"n_modes": (4, 4), "hidden_channels": 4, "n_layers": 1},
        epochs=4,
        batch_size=6,
        precision="schedule",
        dtype="fp16",
        backend="fft",
        checkpoint_steps=1,
    )


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("whole")
    train(settings, run_dir, quiet=True)
    return run_dir


@pytest.mark.parametrize("phases", [None, ((0.5, "full"), (0.5, "mixed"))], ids=["paper", "mixed last"])
def test_a_schedule_keeps_its_tanh_throughout(settings, tmp_path, phases):
    """As if it had been asked for by name, also in phases before the one that brings it."""
    auto = settings.model_copy(update={"phases": phases})
    train(auto, tmp_path / "auto", quiet=True)
    train(auto.model_copy(update={"stabilizer": "tanh"}), tmp_path / "tanh", quiet=True)
    a, b = tensors_of(tmp_path / "auto"), tensors_of(tmp_path / "tanh")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_evaluate_in_another_precision_is_of_the_same_function(whole, settings, capsys):
    assert run(["evaluate", str(whole), "--precision", "amp", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["l2"]
    errors = {}
    for name in ("tanh", "none"):
        model = load(whole / "model.safetensors")
        set_precision(model, Policy.named("amp", stabilizer=name))
        errors[name] = evaluate(model, open_data(settings).test)["l2"]
    assert found == pytest.approx(errors["tanh"], rel=1e-9)
    assert abs(errors["none"] - found) > 1e-6


def test_a_resumed_run_has_it_from_its_checkpoint(settings, whole, tmp_path, monkeypatch):
    """After the phase that brought it, from the file alone."""
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(Stop):
            train(settings, tmp_path, quiet=True)
    assert Checkpoints(tmp_path / "state", 2).read(print)[1]["engine"]["stabilizers"] == TANH
    monkeypatch.setattr("halfwave.training.loop.settle_for", lambda *_: None)
    train(settings, tmp_path, quiet=True)
    assert_same_run(tmp_path, whole)


def test_every_file_of_a_run_holds_it(whole):
    for name in ("model", "best"):
        assert settled_stabilizers(load(whole / f"{name}.safetensors").model) == TANH


def test_a_file_without_it_loads_as_before(whole, tmp_path):
    tensors, values = read_sealed(whole / "model.safetensors")
    write_sealed(tmp_path / "old.safetensors", tensors, {k: v for k, v in values.items() if k != "stabilizers"})
    assert settled_stabilizers(load(tmp_path / "old.safetensors").model) == {}
    write_sealed(tmp_path / "other.safetensors", tensors, {**values, "stabilizers": {"blocks.3.conv": "tanh"}})
    with pytest.raises(InputError, match="is of another model: FNO has no spectral convolution"):
        load(tmp_path / "other.safetensors")
