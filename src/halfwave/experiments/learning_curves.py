"""Test error over the epochs, full against mixed, over seeds: what `error-curves` and `ahmed` have in common."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, SEEDS, check_close, deviation, excess, mean, select, with_deviation
from halfwave.recipes import TITLES, problem
from halfwave.report import Comparison, Line, Panel, Series, Summary, Verdict

METHODS = ("full", "mixed")
# The error that the paper draws: H1 where it trains on it.
ERRORS = {"navier-stokes": "h1", "darcy": "h1", "car": "l2", "shallow-water": "l2", "ahmed": "l2"}
MEASURES = (
    Measure("epoch", "from 1"),
    Measure("l2", "relative L2 error on the test split after the epoch"),
    Measure("h1", "relative H1 error; none on point clouds"),
    Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
)


@dataclass(frozen=True)
class Curve:
    """One training."""

    problem: str
    method: str
    seed: int
    training: Training


def curves(problems: Sequence[str], scale: Scale) -> list[Curve]:
    return [
        Curve(name, method, seed, Training(problem(name, scale), method, seed))
        for name in problems
        for method in METHODS
        for seed in SEEDS[scale]
    ]


def measure_curve(curve: Curve, lab: Lab) -> list[dict[str, Any]]:
    """A row for each epoch; a training that diverged has its missing epochs without errors."""
    trained = lab.train(curve.training)
    rows = [
        {
            "epoch": row["epoch"],
            "l2": row["test_l2"],
            "h1": row["test_h1"],
            "peak_memory_bytes": row["peak_memory_bytes"],
        }
        for row in trained.epochs
    ]
    epochs = curve.training.config("").epochs
    lost = {"l2": None, "h1": None, "peak_memory_bytes": None}
    return rows + [{"epoch": epoch, **lost} for epoch in range(len(rows) + 1, epochs + 1)]


def summarise_curves(rows: list[Row], notes: tuple[str, ...]) -> Summary:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    finals = {f"on {TITLES[n]}": (_final(rows, n, "mixed"), _final(rows, n, "full")) for n in problems}
    return Summary(
        Comparison(
            ("dataset", "error"),
            (
                "full, final",
                "mixed, final",
                "final difference, %",
                "mean difference of the curves, %",
                "memory saved, %",
            ),
            tuple(_line(rows, name) for name in problems),
        ),
        tuple(_panel(rows, name) for name in problems),
        Verdict(check_close("mixed's final error", finals)),
        (*notes, "Bars are the deviation over seeds. The paper draws the curves and prints none of their values."),
    )


def _at(rows: list[Row], name: str, method: str, epoch: int) -> list[Row]:
    return select(rows, problem=name, method=method, epoch=epoch)


def _epochs(rows: list[Row], name: str) -> list[int]:
    return sorted({row["epoch"] for row in rows if row["problem"] == name})


def _final(rows: list[Row], name: str, method: str) -> float | None:
    return mean(_at(rows, name, method, _epochs(rows, name)[-1]), ERRORS[name])


def _line(rows: list[Row], name: str) -> Line:
    last = _epochs(rows, name)[-1]
    full, mixed = (_at(rows, name, method, last) for method in METHODS)
    memory = tuple(found[0]["peak_memory_bytes"] for found in (full, mixed))
    saved = None if None in memory else 100 * (1 - memory[1] / memory[0])
    ours = (
        with_deviation(full, ERRORS[name]),
        with_deviation(mixed, ERRORS[name]),
        excess(_final(rows, name, "mixed"), _final(rows, name, "full")),
        _mean_difference(rows, name),
        saved,
    )
    return Line((TITLES[name], ERRORS[name].upper()), (None,) * 5, ours)


def _mean_difference(rows: list[Row], name: str) -> float | None:
    """Percent by which the mean curve of mixed is above full's, averaged over the epochs: the paper's legend."""
    differences = [
        excess(*(mean(_at(rows, name, method, epoch), ERRORS[name]) for method in ("mixed", "full")))
        for epoch in _epochs(rows, name)
    ]
    known = [difference for difference in differences if difference is not None]
    return statistics.fmean(known) if len(known) == len(differences) else None


def _panel(rows: list[Row], name: str) -> Panel:
    return Panel(
        TITLES[name],
        "epoch",
        f"test error, {ERRORS[name].upper()}",
        tuple(_series(rows, name, method) for method in METHODS),
        ylog=True,
    )


def _series(rows: list[Row], name: str, method: str) -> Series:
    points = []
    for epoch in _epochs(rows, name):
        found = _at(rows, name, method, epoch)
        value = mean(found, ERRORS[name])
        if value is not None:
            points.append((epoch, value, deviation(found, ERRORS[name])))
    epochs, values, deviations = zip(*points, strict=True) if points else ((), (), ())
    return Series(LABELS[method], epochs, values, error=deviations)
