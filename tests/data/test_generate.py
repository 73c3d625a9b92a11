"""The same file from any number of workers, ranks and interruptions."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from forked import run_forked
from halfwave.data import GENERATORS, Darcy, build_generator, generate
from halfwave.data.store import ShardStore, plan_tasks
from halfwave.errors import InputError
from halfwave.recipes import PAPER

PATIENCE = 300  # seconds: never reached, except where something hangs
SMALL = Darcy(resolution=12)
COUNTS = {"n_train": 40, "n_test": 20}

SCRIPT = """
import sys
from halfwave.data import Darcy, generate
if __name__ == "__main__":
    generate(Darcy(resolution=12), sys.argv[1], n_train=40, n_test=20, workers=int(sys.argv[2]))
"""


class Fine(Darcy):
    """The same samples, saved two at a time."""

    chunk = 2


class Slow(Fine):
    """Slow enough to be killed between two shards, even by a test that has to wait for its turn on the machine."""

    def samples(self, seed, split, indices):
        time.sleep(0.08)
        return super().samples(seed, split, indices)


def arrays(path):
    with h5py.File(path) as file:
        return {f"{split}/{which}": file[split][which][:] for split in ("train", "test") for which in ("x", "y")}


def assert_same(a, b):
    a, b = arrays(a), arrays(b)
    assert all(a[key].tobytes() == b[key].tobytes() for key in a)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return generate(SMALL, tmp_path_factory.mktemp("one") / "darcy.h5", **COUNTS)


def test_file_layout_and_metadata(reference):
    with h5py.File(reference) as file:
        assert file["train/x"].shape == file["train/y"].shape == (40, 1, 12, 12)
        assert file["test/x"].shape == (20, 1, 12, 12)
        assert file["train/x"].dtype == np.float32
        metadata = json.loads(file.attrs["metadata"])
    assert metadata["name"] == "darcy"
    assert metadata["parameters"]["high"] == 12.0
    assert (metadata["n_train"], metadata["n_test"], metadata["seed"]) == (40, 20, 0)
    assert metadata["resolution"] == [12, 12]
    assert {"equation", "solver", "version"} <= set(metadata)


def test_sample_in_the_file_is_the_generators(reference):
    with h5py.File(reference) as file:
        x, y = SMALL.sample(0, "test", 17)
        np.testing.assert_array_equal(file["test/x"][17], x)
        np.testing.assert_array_equal(file["test/y"][17], y)


def test_nothing_else_is_left_behind(reference):
    assert [p.name for p in reference.parent.iterdir()] == ["darcy.h5"]


def test_two_workers_give_the_same_bytes(reference, tmp_path):
    assert_same(reference, generate(SMALL, tmp_path / "d.h5", **COUNTS, workers=2))


SMALL_ONES = [
    build_generator("navier-stokes", resolution=16, time=1.0),
    build_generator("shallow-water", resolution=16),
    build_generator("car", resolution=120),
    build_generator("ahmed", resolution=100),
    build_generator("navier-stokes-time", resolution=16, steps=1),
]


@pytest.mark.parametrize("generator", SMALL_ONES, ids=lambda generator: generator.name)
def test_every_generator_gives_the_same_bytes_from_two_workers(generator, tmp_path):
    one, two = (
        generate(generator, tmp_path / f"{workers}.h5", n_train=5, n_test=2, workers=workers) for workers in (1, 2)
    )
    with h5py.File(one) as a, h5py.File(two) as b:
        names = [f"{split}/{name}" for split in ("train", "test") for name in a[split]]
        assert len(names) >= 2
        assert all(a[name][:].tobytes() == b[name][:].tobytes() for name in names)


def test_generators_by_name():
    assert build_generator("darcy", resolution=16, dim=1) == Darcy(resolution=16, dim=1)
    assert set(PAPER) < set(GENERATORS)
    with pytest.raises(InputError, match="accepted: darcy, navier-stokes, shallow-water, car, ahmed"):
        build_generator("stokes")
    with pytest.raises(InputError, match="no parameter 'viscosity'"):
        build_generator("darcy", viscosity=1.0)


def generate_small(path):
    generate(SMALL, path, **COUNTS, workers=1)


def test_two_ranks_as_torchrun_starts_them_give_the_same_bytes(reference, tmp_path):
    run_forked(generate_small, (tmp_path / "d.h5",), 2)
    assert_same(reference, tmp_path / "d.h5")


def test_killed_five_times_and_resumed(reference, tmp_path):
    target, partial = tmp_path / "d.h5", tmp_path / "d.h5.halfwave-partial"
    moments = random.Random(0)
    left = 0
    for _ in range(5):
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=generate, args=(Slow(resolution=12), target), kwargs=COUNTS)
        process.start()
        wait_for_shards(partial, left + 1)
        time.sleep(moments.uniform(0, 0.06))
        process.kill()
        process.join()
        left = len(list(partial.glob("t*.npz")))
        assert left < 30
    assert_same(reference, generate(Fine(resolution=12), target, **COUNTS))
    assert [file.name for file in tmp_path.iterdir()] == ["d.h5"]


def wait_for_shards(partial, count):
    deadline = time.monotonic() + PATIENCE
    while len(list(partial.glob("t*.npz"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_with_workers_and_resumed(reference, tmp_path):
    script = tmp_path / "make.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script, tmp_path / "d.h5", "2"])
    wait_for_shards(tmp_path / "d.h5.halfwave-partial", 1)
    process.kill()
    process.wait()
    assert_same(reference, generate(SMALL, tmp_path / "d.h5", **COUNTS))


def test_interrupt_leaves_a_resumable_state(reference, tmp_path):
    def interrupt(done, total):
        if done >= 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(SMALL, tmp_path / "d.h5", **COUNTS, progress=interrupt)
    seen = []
    generate(SMALL, tmp_path / "d.h5", **COUNTS, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (32, 60)
    assert seen[-1] == (60, 60)
    assert_same(reference, tmp_path / "d.h5")


class Failing(Darcy):
    def samples(self, seed, split, indices):
        raise ArithmeticError("no convergence")


def test_a_failing_worker_is_reported(tmp_path):
    with pytest.raises(RuntimeError, match="no convergence"):
        generate(Failing(resolution=12), tmp_path / "d.h5", **COUNTS, workers=2)


def test_shards_that_a_kill_left_after_the_file_was_whole_are_removed(reference, tmp_path, monkeypatch):
    """Between the file's renaming and the removal of its shards, or in the middle of that."""
    path = tmp_path / "d.h5"
    for left in (lambda store: None, _drop_some):
        monkeypatch.setattr(ShardStore, "discard", left)
        generate(SMALL, path, **COUNTS)
        monkeypatch.undo()
        assert len(list(tmp_path.iterdir())) == 2
        assert_same(reference, generate(SMALL, path, **COUNTS))
        assert [entry.name for entry in tmp_path.iterdir()] == ["d.h5"]
        path.unlink()


def _drop_some(store):
    if store.directory.exists():
        store.directory.rename(store._gone)
        for name in ("assembled", "identity.json"):
            (store._gone / name).unlink()


def test_unfinished_shards_of_another_run_are_left_to_it(reference, tmp_path):
    """A run that makes the file anew (force) while the old one is whole."""
    path = tmp_path / "d.h5"
    shutil.copy(reference, path)
    others = path.with_name("d.h5.halfwave-partial")
    others.mkdir()
    (others / "train-0.npz").touch()
    generate(SMALL, path, **COUNTS)
    assert (others / "train-0.npz").exists()


class Dying(Darcy):
    def samples(self, seed, split, indices):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_reported(tmp_path):
    """As by a system that is out of memory: it says nothing, and its end of the pipe is closed."""
    with pytest.raises(
        RuntimeError, match=r"a worker process failed: it ended with code -9; finished samples are kept"
    ):
        generate(Dying(resolution=12), tmp_path / "d.h5", **COUNTS, workers=2)


class Refusing(Darcy):
    def samples(self, seed, split, indices):
        raise InputError("not like this")


def test_a_worker_that_refuses_its_input_is_quoted(tmp_path):
    with pytest.raises(InputError, match=r"^not like this$"):
        generate(Refusing(resolution=12), tmp_path / "d.h5", **COUNTS, workers=2)


def test_damaged_shard_is_made_anew(reference, tmp_path):
    def damage(done, total):
        if done == total:
            next((tmp_path / "d.h5.halfwave-partial").glob("test*.npz")).write_bytes(b"PK\x03\x04 nothing")

    with pytest.raises(InputError, match="run again"):
        generate(SMALL, tmp_path / "d.h5", **COUNTS, progress=damage)
    assert_same(reference, generate(SMALL, tmp_path / "d.h5", **COUNTS))


def test_full_disk_is_reported_in_one_line(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(InputError, match=r"cannot write .*No space left on device"):
        generate(SMALL, tmp_path / "d.h5", **COUNTS)


def test_two_runs_of_the_same_call_do_not_disturb_each_other(reference, tmp_path):
    fork = multiprocessing.get_context("fork")
    runs = [
        fork.Process(target=generate, args=(Slow(resolution=12), tmp_path / "d.h5"), kwargs=COUNTS) for _ in range(2)
    ]
    for run in runs:
        run.start()
        time.sleep(0.2)
    for run in runs:
        run.join(PATIENCE)
    assert [run.exitcode for run in runs] == [0, 0]
    assert_same(reference, tmp_path / "d.h5")


def test_shards_dropped_by_a_faster_run_while_one_is_written_are_no_error(tmp_path, monkeypatch):
    path = generate(SMALL, tmp_path / "first" / "d.h5", **COUNTS)
    savez = np.savez

    def overtaken(stream, **arrays):
        savez(stream, **arrays)
        if not (tmp_path / "d.h5").exists():
            shutil.copy(path, tmp_path / "d.h5")
            shutil.rmtree(tmp_path / "d.h5.halfwave-partial")

    monkeypatch.setattr(np, "savez", overtaken)
    assert_same(path, generate(SMALL, tmp_path / "d.h5", **COUNTS))
    assert not (tmp_path / "d.h5.halfwave-partial").exists()


def test_a_run_that_begins_while_another_one_finishes_ends_well(tmp_path, monkeypatch):
    path = generate(SMALL, tmp_path / "first" / "d.h5", **COUNTS)

    def overtaken(store):
        shutil.copy(path, store.path)
        raise InputError("cannot read identity.json: No such file or directory")

    monkeypatch.setattr(ShardStore, "open", overtaken)
    assert_same(path, generate(SMALL, tmp_path / "d.h5", **COUNTS))
    with pytest.raises(InputError, match=r"identity\.json"):
        generate(SMALL, tmp_path / "other.h5", n_train=1, n_test=1)  # what is there is not this call's


def test_no_shards_are_done_where_there_is_no_directory(tmp_path):
    assert ShardStore(tmp_path / "d.h5", {}).done(plan_tasks({"train": 2, "test": 1}, 1)) == 0


def test_shards_removed_by_hand_end_the_run(tmp_path):
    def remove(done, total):
        if done == total:
            shutil.rmtree(tmp_path / "d.h5.halfwave-partial", ignore_errors=True)

    with pytest.raises(InputError, match="was removed"):
        generate(SMALL, tmp_path / "d.h5", **COUNTS, progress=remove)


def test_more_samples_keep_the_first_ones(reference, tmp_path):
    more = arrays(generate(SMALL, tmp_path / "d.h5", n_train=50, n_test=20))
    np.testing.assert_array_equal(more["train/x"][:40], arrays(reference)["train/x"])


def test_finished_file_is_reused_and_another_refused(tmp_path):
    path = generate(SMALL, tmp_path / "d.h5", n_train=2, n_test=1)
    before = path.stat().st_mtime_ns
    assert generate(SMALL, path, n_train=2, n_test=1).stat().st_mtime_ns == before
    for arguments in ({"n_train": 3, "n_test": 1}, {"n_train": 2, "n_test": 1, "seed": 1}):
        with pytest.raises(InputError, match="holds something else"):
            generate(SMALL, path, **arguments)
    assert len(arrays(generate(SMALL, path, n_train=3, n_test=1, force=True))["train/x"]) == 3


def test_partial_of_another_dataset_is_refused(tmp_path):
    ShardStore(tmp_path / "d.h5", {"name": "other"}).open()
    with pytest.raises(InputError, match="another dataset"):
        generate(SMALL, tmp_path / "d.h5", n_train=2, n_test=1)


def test_tasks_cover_each_sample_once():
    tasks = plan_tasks({"train": 20, "test": 3}, 8)
    covered = [(task.split, i) for task in tasks for i in range(task.start, task.stop)]
    assert covered == [("train", i) for i in range(20)] + [("test", i) for i in range(3)]


@pytest.mark.parametrize(
    ("change", "word"),
    [({"n_train": 0}, "n_train"), ({"n_test": -1}, "n_test"), ({"workers": 0}, "workers"), ({"seed": -1}, "seed")],
)
def test_bad_arguments_are_refused(change, word, tmp_path):
    with pytest.raises(InputError, match=word):
        generate(SMALL, tmp_path / "d.h5", **{**COUNTS, **change})


def test_directory_as_target_and_bad_ranks_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="is a directory"):
        generate(SMALL, tmp_path, **COUNTS)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="remove"):
        generate(SMALL, tmp_path / "d.h5", **COUNTS, force=True)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(InputError, match="RANK is 2"):
        generate(SMALL, tmp_path / "d.h5", **COUNTS)
