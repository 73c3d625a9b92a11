"""`halfwave reproduce [NAME]`: the tables and figures of the paper, measured here."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from tyro.conf import Positional

from halfwave.commands.common import as_usage, log_console, results_console
from halfwave.display import progress_of
from halfwave.errors import InputError, UsageError
from halfwave.experiments import (
    SCALES,
    Experiment,
    Results,
    Scale,
    check_scale,
    experiment_names,
    get_experiment,
    plan_trainings,
    read_results,
    run,
    summarise,
)
from halfwave.measure import keep_freed_blocks
from halfwave.numerics import avoid_missing_tiles
from halfwave.report import SIGNS, Summary, text_of
from halfwave.tables import build_table

ALL = "all"


@dataclass
class Reproduce:
    """Measures the tables and figures of the paper; without a name, lists them.

    What OUT/SCALE/NAME.csv holds is not measured again: a stopped run goes on.

    Start it as often as there are cores: processes share the work row by row.
    """

    name: Positional[str] = ""
    """An experiment, or all; by default they are listed."""
    scale: str = "smoke"
    """smoke (seconds), small (minutes on two cores), medium (errors at which rounding shows: hours) or paper (for a
    GPU)."""
    out: Path = Path("results")
    """Where results go."""

    def run(self) -> None:
        scale = as_usage(lambda: check_scale(self.scale))
        if not self.name:
            results_console().print(self._list())
            return
        avoid_missing_tiles()
        keep_freed_blocks()
        experiments = self._experiments(scale)
        if scale == "paper":
            log_console().print(str(plan_trainings(experiments, scale)), soft_wrap=True)
        failed = [experiment.name for experiment in experiments if not self._reproduce(experiment, scale, wait=False)]
        # What other processes were measuring in the first pass.
        failed += [e.name for e in experiments if e.name not in failed and not self._reproduce(e, scale, wait=True)]
        if failed:
            raise InputError(f"{len(failed)} of {len(experiments)} experiments failed: {', '.join(failed)}")

    def _experiments(self, scale: Scale) -> list[Experiment]:
        names = experiment_names() if self.name == ALL else [self.name]
        found = as_usage(lambda: [get_experiment(name) for name in names])
        if self.name != ALL and scale not in found[0].scales:
            raise UsageError(f"{self.name} has no scale {scale!r}: expected one of {', '.join(found[0].scales)}")
        chosen = [experiment for experiment in found if scale in experiment.scales]
        for experiment in chosen:  # digests are of the code as it is now: files may change under a run of hours
            log_console().print(f"{experiment.name}: code {experiment.code}", soft_wrap=True)
        return chosen

    def _reproduce(self, experiment: Experiment, scale: Scale, wait: bool) -> bool:
        """Run one and, once it is whole, print what it says; False after a failure, which must not stop the others."""
        log = log_console()
        try:
            with progress_of(f"{experiment.name} ({scale})", log) as progress:
                results = run(experiment, scale, self.out, progress=progress, say=_say, wait=wait)
            if wait:
                _show(results, summarise(results))
            return True
        except Exception as error:
            if self.name != ALL:
                raise
            known = isinstance(error, InputError | OSError)
            reason = str(error) if known else "".join(traceback.format_exception(error))
            log.print(f"{experiment.name}: {reason}", soft_wrap=True)
            return False

    def _list(self) -> Table:
        experiments = {name: get_experiment(name) for name in experiment_names()}
        rows = [
            (name, experiment.question, *(_state(experiment, scale, self.out) for scale in SCALES))
            for name, experiment in experiments.items()
        ]
        return build_table("tables and figures of the paper", ["name", "question", *SCALES], [], rows)


def _say(message: str) -> None:
    log_console().print(message, soft_wrap=True)


def _state(experiment: Experiment, scale: Scale, directory: Path) -> str:
    if scale not in experiment.scales:
        return "-"
    try:
        return read_results(experiment, scale, directory).state
    except InputError as error:
        return str(error)


def _show(results: Results, summary: Summary) -> None:
    """The table with the paper's figures beside ours, the notes and the verdict."""
    columns, labels = summary.comparison.columns, len(summary.comparison.labels)
    rows = [[text_of(value) for value in row] for row in summary.comparison.rows]
    title = f"{results.experiment.name}, scale {results.scale}"
    table = build_table(title, columns[:labels], columns[labels:], rows)
    console = results_console()
    if not console.is_terminal:  # a file has no width that a table would have to fit
        console.width = 240
    console.print(table)
    for note in summary.notes:
        console.print(note, soft_wrap=True)
    for part in summary.verdict.parts:
        console.print(f"{SIGNS[part.status]} {part.status}: {part.outcome.clause}", soft_wrap=True)
    for sentence in (f"verdict: {summary.verdict.status}", f"{results.csv}: {results.seconds:.0f} s of measuring"):
        console.print(sentence, soft_wrap=True)
