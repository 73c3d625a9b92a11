"""`halfwave runs`: runs side by side, and the settings in which they differ."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from halfwave.commands.common import figure_text, log_console, results_console
from halfwave.errors import InputError
from halfwave.tables import build_table
from halfwave.training import RunListing, differing_settings, find_runs

_PIPED = 160
_KEYS: dict[str, Callable[[RunListing], Any]] = {
    "path": lambda run: run.path,
    "error": lambda run: (run.l2 is None, run.l2),
    "time": lambda run: run.seconds,
    "epochs": lambda run: run.epochs,
    "recipe": lambda run: (run.recipe or "", run.path),
    "precision": lambda run: (run.precision or "", run.path),
}


@dataclass
class Runs:
    """Lists and compares runs: recipe, model, precision, epochs, test error, time.

    Settings in which they differ stand below, each value with the runs that have it.
    """

    runs: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Run directories, or directories with runs somewhere below them."""
    sort: Literal["path", "error", "time", "epochs", "recipe", "precision"] = "path"
    """What the rows are ordered by; the smallest comes first."""
    json: bool = False
    """Print one JSON array, with all settings, instead of tables."""

    def run(self) -> None:
        listed = sorted(self._listed(), key=_KEYS[self.sort])
        if self.json:
            print(json.dumps([run.to_dict() for run in listed]))
            return
        console = results_console()
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console.width = _PIPED  # a file has no width that a table would have to fit
        console.print(runs_table(listed))
        differing = differing_settings(listed)
        if differing:
            console.print(differences_table(differing))

    def _listed(self) -> list[RunListing]:
        """Every run that can be read; those that cannot are named."""
        found = []
        for path in find_runs(self.runs):
            try:
                found.append(RunListing.of(path))
            except InputError as error:
                log_console().print(f"left out: {error}", soft_wrap=True, markup=False)
        if not found:
            places = ", ".join(map(str, self.runs))
            raise InputError(f"no runs in {places}: `halfwave train RECIPE` makes one, in runs/ unless told otherwise")
        return found


def runs_table(runs: Sequence[RunListing]) -> Any:
    """One row for each run, numbered for the table of differences; the folder that all lie in is said once."""
    above = os.path.commonpath([Path(run.path).parent for run in runs])
    rows = [
        (
            str(number), os.path.relpath(run.path, above or "."), run.recipe or "-", run.model or "-",
            run.precision or "-", _epochs(run), figure_text(run.l2), duration_text(run.seconds),
        )
        for number, run in enumerate(runs, 1)
    ]  # fmt: skip
    labels = ["", "path", "recipe", "model", "precision"]
    return build_table(f"runs in {above or '.'}", labels, ["epochs", "test L2", "time"], rows)


def differences_table(differing: dict[str, list[Any]]) -> Any:
    """Each setting that differs, its values with the numbers of their runs."""
    rows = [(name, "; ".join(_by_value(values))) for name, values in differing.items()]
    return build_table("settings that differ, value (runs)", ["setting", "values"], [], rows)


def _by_value(values: Sequence[Any]) -> list[str]:
    runs: dict[str, list[str]] = {}
    for number, value in enumerate(values, 1):
        runs.setdefault("-" if value is None else json.dumps(value), []).append(str(number))
    return [f"{value} ({', '.join(numbers)})" for value, numbers in runs.items()]


def _epochs(run: RunListing) -> str:
    return str(run.epochs) if run.epochs == run.epochs_asked else f"{run.epochs} of {run.epochs_asked}, {run.status}"


def duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
