"""What commands share: consoles, progress, and options given as KEY=VALUE."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from halfwave.errors import InputError, UsageError

T = TypeVar("T")


def results_console() -> Console:
    """Standard output: results that may be piped on."""
    return Console(highlight=False)


def log_console() -> Console:
    """Standard error: what a person reads while waiting."""
    return Console(stderr=True, highlight=False)


def as_usage(call: Callable[[], T]) -> T:
    """`call()`, with its ValueError as a usage error: for names and values that came from the command line."""
    try:
        return call()
    except ValueError as error:
        raise UsageError(str(error)) from error


def parse_pairs(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """``["dim=3", "n_modes=[8,8]"]`` as a dictionary; values are JSON, or text where they are not."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: expected KEY=VALUE, got {pair!r}")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    return values


@contextmanager
def progress_of(what: str, console: Console) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar with rate and remaining time, or lines in a log file."""
    if not console.is_terminal:
        yield _line_progress(what, console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None, rate="")

        def update(done: int, total: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=total, rate=f"{speed:.3g}/s" if speed else "")

        yield update


def _line_progress(what: str, console: Console) -> Callable[[int, int], None]:
    """A line for each tenth of the work: a log file has no use for a moving bar."""
    shown = -1

    def update(done: int, total: int) -> None:
        nonlocal shown
        tenth = 10 * done // max(total, 1)
        if tenth > shown:
            shown = tenth
            console.print(f"{what}: {done}/{total}", soft_wrap=True, markup=False)

    return update


def find_model_file(run: Path) -> Path:
    """The model of a run: `run` itself if it is a file, else ``model.safetensors`` in the directory."""
    if run.is_dir():
        found = run / "model.safetensors"
        if not found.exists():
            raise InputError(f"{run} has no model.safetensors: not a run, or not finished (train again to resume it)")
        return found
    if not run.exists():
        raise InputError(f"{run} does not exist: expected a run directory or a model file")
    return run
