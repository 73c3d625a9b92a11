"""Make a dataset file: over worker processes and ranks, resumable, always the same bytes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from halfwave.data.generator import Generator
from halfwave.data.store import ShardStore, Task, plan_tasks, read_metadata
from halfwave.errors import InputError
from halfwave.numerics import on_threads

FORMAT_VERSION = 1
Progress = Callable[[int, int], None]
_Worker = tuple[BaseProcess, Connection]
_POLL_SECONDS = 0.1


def generate(
    generator: Generator,
    path: str | Path,
    *,
    n_train: int,
    n_test: int,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
    force: bool = False,
) -> Path:
    """Write the dataset of `generator` to one HDF5 file and return its path.

    Sample i of a split depends on (seed, split, i) alone, so the arrays are the same for any number of workers, ranks
    (`RANK` and `WORLD_SIZE` as torchrun sets them, one shared file system) and interruptions: finished samples wait in
    `<path>.halfwave-partial` and the same call resumes there. A finished file of the same data is reused, another is
    refused unless `force`. `progress(done, total)` is called with numbers of samples.
    """
    path = Path(path)
    _check_arguments(path, n_train, n_test, seed, workers, force)
    identity = {"name": generator.name, **generator.describe(), "seed": seed, "format_version": FORMAT_VERSION}
    identity = json.loads(json.dumps(identity))  # as a file would give it back: lists for tuples
    metadata = {**identity, "n_train": n_train, "n_test": n_test}
    store = ShardStore(path, identity)
    if not force and _is_finished(path, metadata):
        store.tidy()
        return path
    before = _content_id(path) if force else None
    if force:
        store.discard()

    def finished() -> bool:
        return _content_id(path) != before and _same_data(read_metadata(path), metadata)

    try:
        store.open()
    except InputError:
        if not finished():  # not another run of the same call, which has just finished
            raise
        store.discard()
        return path
    tasks = plan_tasks({"train": n_train, "test": n_test}, generator.chunk)
    rank, ranks = _rank()
    # What a file of an older version may lack, and still be of the same data.
    beside = {"domain": generator.domain.to_dict(), "version": _version()}
    report = _reporter(store, tasks, progress)
    _run(generator, store, tasks[rank::ranks], seed, workers, report)
    if rank == 0:
        _finish(store, tasks, {**metadata, **beside}, finished, report)
    else:
        _wait(finished, report=None)
        store.discard()  # this rank may have made the directory anew after rank 0 had finished
    return path


def _finish(
    store: ShardStore,
    tasks: list[Task],
    metadata: dict[str, Any],
    finished: Callable[[], bool],
    report: Callable[[], None],
) -> None:
    """Assemble the file when all samples are there, unless another run of the same call does so first."""

    def ready() -> bool:
        there = store.directory.is_dir()  # asked before `finished`: a run that finishes drops its shards last
        if finished():
            return True
        if not there:
            raise InputError(f"{store.directory} was removed while samples were being made; run again")
        return store.done(tasks) == total

    total = sum(len(task) for task in tasks)
    _wait(ready, report)
    try:
        if not finished():
            store.assemble(tasks, metadata)
    except (InputError, FileNotFoundError):
        if not finished():  # the other run has not taken the shards away: the error is real
            raise
    store.discard()  # a late shard may have made the directory anew after another run had finished


def _check_arguments(path: Path, n_train: int, n_test: int, seed: int, workers: int, force: bool) -> None:
    if n_train < 1 or n_test < 1:
        raise InputError(f"n_train and n_test are {n_train} and {n_test}; each split needs at least 1 sample")
    if workers < 1:
        raise InputError(f"workers is {workers}; at least 1 is needed")
    if not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise InputError(f"seed is {seed!r}; a whole number from 0 to 2^64 - 1 is needed")
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the name of a file to write")
    if force and _rank()[1] > 1:
        raise InputError(f"force cannot be used over several ranks; remove {path} first")


def _is_finished(path: Path, metadata: dict[str, Any]) -> bool:
    if not path.exists():
        return False
    if _same_data(read_metadata(path), metadata):
        return True
    raise InputError(f"{path} exists and holds something else; choose another file (--out) or force (--force)")


def _content_id(path: Path) -> tuple[int, int] | None:
    """What tells a file from the one that is renamed over it; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _same_data(found: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    return found is not None and all(found.get(key) == value for key, value in wanted.items())


def _version() -> str:
    try:
        return version("halfwave")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def _rank() -> tuple[int, int]:
    try:
        rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError as error:
        raise InputError(f"RANK and WORLD_SIZE must be whole numbers: {error}") from error
    if not 0 <= rank < ranks:
        raise InputError(f"RANK is {rank} and WORLD_SIZE is {ranks}; accepted: 0 <= RANK < WORLD_SIZE")
    return rank, ranks


def _reporter(store: ShardStore, tasks: list[Task], progress: Progress | None) -> Callable[[], None]:
    """A function that tells `progress` how many samples are on disk, whoever made them."""
    total = sum(len(task) for task in tasks)
    last = -1

    def report() -> None:
        nonlocal last
        done = store.done(tasks) if progress else 0
        if progress and done != last:
            last = done
            progress(done, total)

    return report


def _run(
    generator: Generator, store: ShardStore, tasks: list[Task], seed: int, workers: int, report: Callable[[], None]
) -> None:
    missing = [task for task in tasks if not store.has(task)]
    report()
    workers = min(workers, len(missing))
    if workers > 1:
        _run_processes(generator, store, missing, seed, workers, report)
        return
    with on_threads(1):
        for task in missing:
            _make(generator, store, task, seed)
            report()


def _make(generator: Generator, store: ShardStore, task: Task, seed: int) -> None:
    store.write(task, generator.samples(seed, task.split, range(task.start, task.stop)))


def _run_processes(
    generator: Generator, store: ShardStore, tasks: list[Task], seed: int, workers: int, report: Callable[[], None]
) -> None:
    """Each process makes every n-th task and writes its own shards: no queue that a killed process could block."""
    running: list[_Worker] = []
    try:
        for i in range(workers):
            running.append(_start_worker(generator, store, tasks[i::workers], seed))
        while any(process.is_alive() for process, _ in running):
            _check_workers(running)
            report()
            time.sleep(_POLL_SECONDS)
        _check_workers(running)
        report()
    finally:
        for process, receiver in running:
            process.terminate()
            process.join()
            receiver.close()


def _start_worker(generator: Generator, store: ShardStore, tasks: list[Task], seed: int) -> _Worker:
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(generator, store, tasks, seed, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["halfwave.data"])  # imports torch once for all workers
    return context


def _check_workers(running: list[_Worker]) -> None:
    for process, receiver in running:
        if process.exitcode not in (None, 0):
            error = _said(receiver) or f"it ended with code {process.exitcode}"
            if isinstance(error, InputError):
                raise error
            raise RuntimeError(f"a worker process failed: {error}; finished samples are kept, run again to resume")


def _said(receiver: Connection) -> Any:
    """What a worker sent before it ended; None of one that was killed: its end of the pipe is closed."""
    with suppress(EOFError):
        return receiver.recv() if receiver.poll() else None
    return None


def _work(generator: Generator, store: ShardStore, tasks: list[Task], seed: int, failures: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    parent = multiprocessing.parent_process()
    assert parent is not None
    try:
        with on_threads(1):
            for task in tasks:
                if not parent.is_alive():
                    return  # it was killed; whoever resumes will make the rest
                _make(generator, store, task, seed)
    except Exception as error:
        failures.send(error if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
        raise SystemExit(1) from error


def _wait(condition: Callable[[], bool], report: Callable[[], None] | None) -> None:
    """Wait for the files of other ranks."""
    while not condition():
        if report:
            report()
        time.sleep(_POLL_SECONDS)
    if report:
        report()
