"""The memory plan as a gate: a training that does not fit is refused before it begins, with a way out."""

import json
import re
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest
from specimens import write_own_clouds

import halfwave
from halfwave import gate
from halfwave.cli import run
from halfwave.data import open_any
from halfwave.errors import InputError
from halfwave.planner import format_bytes, parse_bytes
from halfwave.training import TrainConfig, meta_network

GIB = 1 << 30


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "waves.h5"
    write_waves(path, 64, (64, 64))
    return path


def write_waves(path, n_train, grid):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for split, count in (("train", n_train), ("test", 2)):
            for name in ("x", "y"):
                file[f"{split}/{name}"] = rng.standard_normal((count, 1, *grid), dtype=np.float32)


def config_of(path, **changes):
    arguments = {"n_modes": [8, 8], "hidden_channels": 32, "n_layers": 2}
    return TrainConfig(data=str(path), precision="full", **{"batch_size": 8, "arguments": arguments, **changes})


def step_of(path, **changes):
    config, dataset = config_of(path, **changes), open_any(path)
    return gate._Step(config, dataset, meta_network(config, dataset))


def needed(path, **changes):
    """All that a training needs, by its plan."""
    step = step_of(path, **changes)
    return step._total(step._needed(step.share))


def test_what_fits_passes_and_what_does_not_is_refused_with_the_largest_batch_that_fits(data_file, monkeypatch):
    config, dataset, size = config_of(data_file), open_any(data_file), needed(data_file)
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: size)
    gate.check_memory(config, dataset)
    there = size * 4 // 5
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: there)
    with pytest.raises(InputError, match=r"training needs .* are there: --batch-size \d+ fits, or --force to try") as e:
        gate.check_memory(config, dataset)
    batch = int(re.search(r"--batch-size (\d+)", str(e.value))[1])
    assert needed(data_file, batch_size=batch) <= there < needed(data_file, batch_size=batch + 1)
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: needed(data_file, batch_size=1) // 2)
    with pytest.raises(InputError, match="not even a batch of 1 fits"):
        gate.check_memory(config, dataset)


def test_the_quick_bound_is_one_and_the_estimate_is_near(data_file):
    step = step_of(data_file, batch_size=4)
    planned = step._needed(step.share)
    assert planned <= step.share * step._estimate(exact=False)
    estimate = step._fixed + step.share * (step._estimate(exact=True) - step._fixed)
    assert 0.6 < estimate / planned < 1.7


def test_every_process_counts_and_shards_of_parameters_once(data_file):
    one, ddp, fsdp = (
        step_of(data_file, **changes)
        for changes in ({}, {"devices": 2, "strategy": "ddp"}, {"devices": 2, "strategy": "fsdp"})
    )
    assert ddp.share == fsdp.share == one.share // 2
    assert ddp._total(1 << 30) == 2 * one._total(1 << 30)
    assert ddp._total(1 << 30) - fsdp._total(1 << 30) == one._fixed


def test_under_a_limit_of_six_gigabytes_a_training_that_needs_twelve_is_refused(tmp_path):
    """The Must show: a process with `ulimit -v`, and nothing of the training is begun; what is said fits does fit."""
    path, limit = tmp_path / "large.h5", 6 * GIB
    write_waves(path, 32, (256, 256))
    model = {"n_modes": [8, 8], "hidden_channels": 200, "n_layers": 2, "domain_padding": None}
    twelve = needed(path, batch_size=32, arguments=model)
    assert 12 * GIB < twelve < 13 * GIB
    command = [sys.executable, "-m", "halfwave", "train", "fno", "--data", str(path), "--out", str(tmp_path / "run")]
    sizes = ["--batch-size", "32", "--precision", "full", "--arguments"]
    done = subprocess.run(
        [*command, *sizes, *(f"{name}={json.dumps(value)}" for name, value in model.items())],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    line = r"halfwave: training needs (.+) and (.+) are there: --batch-size (\d+) fits, or --force to try\n"
    found = re.fullmatch(line, done.stderr)
    assert found, done.stderr
    assert found[1] == format_bytes(twelve)
    assert 0 < parse_bytes(found[2]) < limit
    fits = int(found[3])
    assert needed(path, batch_size=fits, arguments=model) < 1.01 * parse_bytes(found[2])
    assert needed(path, batch_size=fits + 1, arguments=model) > 0.99 * parse_bytes(found[2])
    assert not (tmp_path / "run").exists()


def test_where_not_one_sample_fits_the_way_out_is_another_model(data_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: 6 * GIB)
    command = ["train", "fno", "--data", str(data_file), "--out", str(tmp_path / "run"), "--batch-size", "16"]
    model = ["n_modes=[32,32]", "hidden_channels=256", "n_layers=4"]
    assert run([*command, "--precision", "full", "--arguments", *model]) == 1
    line = r"halfwave: training needs more than (.+) and 6 GiB are there: (.+), or --force to try\n"
    found = re.fullmatch(line, capsys.readouterr().err)
    assert found
    assert parse_bytes(found[1]) > 6 * GIB
    assert found[2] == "not even a batch of 1 fits; --recompute, fewer channels or a smaller grid"
    assert not (tmp_path / "run").exists()


def test_a_model_that_no_machine_holds_is_refused_at_once(data_file, tmp_path, capsys):
    command = ["train", "fno", "--data", str(data_file), "--out", str(tmp_path / "run"), "--arguments"]
    assert run([*command, "hidden_channels=30000", "n_modes=[8,8]", "n_layers=1"]) == 1
    assert "training needs" in capsys.readouterr().err
    assert run([*command, "n_layers=1000000000"]) == 1
    assert "n_layers must be at most 1024" in capsys.readouterr().err


def test_from_python_a_training_that_does_not_fit_is_refused_as_well(data_file, tmp_path, monkeypatch):
    config, size = config_of(data_file, epochs=1, n_train=4, n_test=1), needed(data_file)
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: size * 4 // 5)
    with pytest.raises(InputError, match=r"training needs .*: batch_size=\d+ fits, or force=True to try"):
        halfwave.train(config_of(data_file, epochs=1), tmp_path / "run")
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: 10)
    module = halfwave.FNO((2, 2), 1, 1, 2, n_layers=1)
    with pytest.raises(InputError, match=r"for its parameters alone .*, or force=True to try"):
        halfwave.train(data=data_file, model=module, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert halfwave.train(config, tmp_path / "run", quiet=True, force=True).status == "finished"


def test_of_point_clouds_parameters_and_their_copies_are_counted(tmp_path, monkeypatch, capsys):
    path = tmp_path / "cars.h5"
    write_own_clouds(path)
    monkeypatch.setattr(gate, "free_memory_bytes", lambda: 64 << 20)
    command = ["train", "gino", "--data", str(path), "--out", str(tmp_path / "run"), "--arguments"]
    assert run([*command, "fno_hidden_channels=256", "fno_n_modes=[16,16,16]"]) == 1
    said = capsys.readouterr().err
    assert "for its parameters alone and 64 MiB are there: fewer channels, modes or layers, or --force to try" in said
    assert not (tmp_path / "run").exists()
