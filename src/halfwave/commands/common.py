"""What commands share: consoles, options given as KEY=VALUE, and the model of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

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
