"""Exact resume: after a kill, a signal or a damaged checkpoint, the run ends as if nothing had happened."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from deaths import Stop, assert_same_run, stop_after

from halfwave.errors import InputError
from halfwave.files import write_json
from halfwave.training import TrainConfig, load, train
from halfwave.training.checkpointing import Checkpoints, Keeper
from halfwave.training.engine import Engine
from halfwave.training.loop import Loop
from halfwave.training.records import read_metrics
from halfwave.training.saving import read_extra

SCRIPT = """
import json, sys
from halfwave.training import TrainConfig, train
config, run_dir = sys.argv[1:]
print(train(TrainConfig(**json.load(open(config))), run_dir, quiet=True).status)
"""


@pytest.fixture(scope="module")
def settings(data_file):
    """Everything that has state: a schedule with its edges inside epochs, loss scaling, clipping, accumulation,
    augmentation."""
    return TrainConfig(
        data=str(data_file),
        arguments={"n_modes": (4, 4), "hidden_channels": 4, "n_layers": 1},
        epochs=4,
        batch_size=2,
        precision="schedule",
        phases=((0.3, "mixed"), (0.45, "amp"), (0.25, "full")),
        loss_scaling=True,
        clip=1.0,
        accumulate=2,
        checkpoint_steps=1,
        scheduler="one-cycle",
        augment=("reflections",),
    )


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("whole")
    train(settings, run_dir, quiet=True)
    return run_dir


@pytest.mark.parametrize("updates", [0, 1, 3, 4, 8, 11])
def test_a_run_that_dies_anywhere_resumes_bit_for_bit(settings, whole, tmp_path, monkeypatch, updates):
    with monkeypatch.context() as patch:
        stop_after(patch, updates)
        with pytest.raises(Stop):
            train(settings, tmp_path, quiet=True)
    assert train(settings, tmp_path, quiet=True).status == "finished"
    assert_same_run(tmp_path, whole)


def test_many_deaths_in_one_run(settings, whole, tmp_path, monkeypatch):
    deaths = 0
    while deaths < 20:
        with monkeypatch.context() as patch:
            stop_after(patch, 1)
            try:
                train(settings, tmp_path, quiet=True)
                break
            except Stop:
                deaths += 1
    assert deaths >= 8
    assert_same_run(tmp_path, whole)


@pytest.mark.parametrize("optimizer", ["adamw_pair_bf16", "adamw_pair_8bit"])
def test_the_state_of_the_lean_optimizer_is_resumed(settings, tmp_path, monkeypatch, optimizer):
    lean = settings.model_copy(update={"optimizer": optimizer, "epochs": 2})
    train(lean, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Stop):
            train(lean, tmp_path / "run", quiet=True)
    assert train(lean, tmp_path / "run", quiet=True).status == "finished"
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_scale_that_loss_scaling_has_found_is_resumed(settings, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        original = Engine._step

        def overflowing(self):
            next(p for p in self.module.parameters() if p.grad is not None).grad.fill_(float("inf"))
            return original(self)

        patch.setattr(Engine, "_step", overflowing)
        stop_after(patch, 2)
        with pytest.raises(Stop):
            train(settings, tmp_path, quiet=True)
    train(settings, tmp_path, quiet=True)
    assert {row["loss_scale"] for row in read_metrics(tmp_path)} == {2.0**14}
    assert {row["skipped_steps"] for row in read_metrics(tmp_path)} == {2}


def test_phases_are_in_the_metrics(whole):
    assert [(row["phase"], row["policy"]) for row in read_metrics(whole)] == [
        (0, "mixed"), (1, "amp"), (1, "amp"), (2, "full"),
    ]  # fmt: skip


def start(config, run_dir, tmp_path):
    write_json(tmp_path / "config.json", config.to_dict())
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "config.json"), str(run_dir)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sigkill_and_resume(settings, whole, tmp_path):
    """A real kill, of a process that is asked for nothing before."""
    slow = settings.model_copy(update={"epochs": 500})
    process = start(slow, tmp_path / "slow", tmp_path)
    wait_for(lambda: len(Checkpoints(tmp_path / "slow" / "state", 9).files()) == 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    state = Checkpoints(tmp_path / "slow" / "state", 9).read(print)
    assert state is not None
    assert state[1]["position"]["step"] > 0
    assert len(read_metrics(tmp_path / "slow")) >= state[1]["position"]["epoch"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("updates", [2, 3])  # within an epoch, and at its end
def test_a_signal_saves_and_stops_and_the_run_goes_on(settings, whole, tmp_path, monkeypatch, number, updates):
    original, before = Loop._account, signal.getsignal(number)

    def signalling(self, update, batches):
        original(self, update, batches)
        if self.position.step == updates:
            signal.raise_signal(number)

    # Without periodic checkpoints within epochs, the one that the signal asks for is the one that counts.
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_account", signalling)
        result = train(settings.model_copy(update={"checkpoint_steps": None}), tmp_path, quiet=True)
    assert result.status == "interrupted"
    assert signal.getsignal(number) is before
    load(tmp_path / "model.safetensors")
    assert train(settings, tmp_path, quiet=True).status == "finished"
    assert_same_run(tmp_path, whole)


def test_a_second_sigint_stops_at_once(settings, tmp_path, monkeypatch):
    original = Loop._account

    def signalling(self, update, batches):
        original(self, update, batches)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Loop, "_account", signalling)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path, quiet=True)


def test_a_damaged_newest_checkpoint_falls_back_and_says_so(settings, whole, tmp_path, monkeypatch, capfd):
    with monkeypatch.context() as patch:
        stop_after(patch, 7)
        with pytest.raises(Stop):
            train(settings, tmp_path, quiet=True)
    newest, before = Checkpoints(tmp_path / "state", 9).files()
    content = bytearray(newest.read_bytes())
    content[-1] ^= 0xFF  # in a tensor: the header, with the checksum in it, is most of a small checkpoint
    newest.write_bytes(content)
    train(settings, tmp_path)
    errors = capfd.readouterr().err
    # A long path is broken over lines, at blanks or not.
    assert "".join(f"falling back to the one before: {newest} is damaged".split()) in "".join(errors.split())
    assert_same_run(tmp_path, whole)
    assert before.name < newest.name


def test_costly_checkpoints_are_put_off_and_the_last_one_is_not(settings, whole, tmp_path, monkeypatch):
    """A write that seems to take an hour: one at the first epoch, when nothing is known, and one at the end."""
    original, written = Keeper.checkpoint, []

    def slow(self, batches, values):
        original(self, batches, values)
        written.append(batches)
        self._cost = 3600.0

    monkeypatch.setattr(Keeper, "checkpoint", slow)
    train(settings.model_copy(update={"checkpoint_steps": None}), tmp_path, quiet=True)
    assert written == [6, 24]
    assert_same_run(tmp_path, whole)
    best = min(read_metrics(tmp_path), key=lambda row: row["test_l2"])
    assert read_extra(tmp_path / "best.safetensors")["epoch"] == best["epoch"]


def test_no_usable_checkpoint_is_an_error_and_not_a_new_run(settings, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stop):
            train(settings, tmp_path, quiet=True)
    files = Checkpoints(tmp_path / "state", 9).files()
    for path in files:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="no usable checkpoint"):
        train(settings, tmp_path, quiet=True)
    assert Checkpoints(tmp_path / "state", 9).files() == files


@contextlib.contextmanager
def files_up_to(size):
    """The system refuses to let any file grow past `size` bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_and_the_last_checkpoint_survives(settings, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(Stop):
            train(settings, tmp_path, quiet=True)
    before = Checkpoints(tmp_path / "state", 9).files()
    for size in (2000, 0):  # room for the metrics but not for a checkpoint, and room for nothing
        with files_up_to(size), pytest.raises(InputError, match="cannot write") as caught:
            train(settings, tmp_path, quiet=True)
        assert "\n" not in str(caught.value)
        assert Checkpoints(tmp_path / "state", 9).files() == before
        assert not [p for p in tmp_path.rglob(".*") if p.is_file()]
    train(settings, tmp_path, quiet=True)
    assert_same_run(tmp_path, whole)
