"""frequency-modes: error by the number of kept frequencies, in full and mixed precision, on Darcy flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    LABELS,
    check_close,
    deviation,
    errors_of,
    excess,
    mean,
    seconds_per_epoch,
    select,
    with_deviation,
)
from halfwave.recipes import problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

METHODS = ("full", "mixed")
# The paper keeps 16, 32, 64 and 128 modes of a grid of 128: these parts of the grid.
PARTS = (8, 4, 2, 1)
PAPER_GRID = 128
FLAT = 5.0  # percent between half of the grid's modes and all of them
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0,), "paper": (0, 1, 2)}


@dataclass(frozen=True)
class Trial:
    """One training with `modes` modes along each axis of a grid of `grid` points a side."""

    grid: int
    modes: int
    method: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[Trial]:
    grid = problem("darcy", scale).parameters["resolution"]
    return [
        Trial(grid, grid // part, method, seed, _training(grid // part, method, seed, scale))
        for part in PARTS
        for method in METHODS
        for seed in SEEDS[scale]
    ]


def _training(modes: int, method: str, seed: int, scale: Scale) -> Training:
    recipe = problem("darcy", scale)
    same = recipe.arguments["n_modes"] == [modes, modes]  # then it is shared with other experiments
    return Training(recipe, method, seed, {} if same else {"arguments": {"n_modes": [modes, modes]}})


def measure(trial: Trial, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(trial.training)
    return [{**errors_of(trained), "seconds_per_epoch": seconds_per_epoch(trained)}]


def summarise(rows: list[Row]) -> Summary:
    grid = rows[0]["grid"]
    modes = sorted({row["modes"] for row in rows})
    lines = tuple(_line(rows, method, n, grid) for n in modes for method in METHODS)
    errors = {f"with {n} modes": (_error(rows, n, "mixed"), _error(rows, n, "full")) for n in modes}
    return Summary(
        Comparison(
            ("modes, paper", "modes, ours", "method"),
            ("error, H1", "error, L2", "H1 against full, %", "seconds per epoch"),
            lines,
        ),
        tuple(_panel(rows, error, modes) for error in ("h1", "l2")),
        Verdict((_check_few(rows, modes), *_check_flat(rows, modes, grid), *check_close("mixed's H1 error", errors))),
        (f"The same parts of the grid as in the paper, of {grid} points a side rather than {PAPER_GRID}.",)
        if grid != PAPER_GRID
        else (),
    )


def _error(rows: list[Row], modes: int, method: str, error: str = "h1") -> float | None:
    return mean(select(rows, modes=modes, method=method), error)


def _check_few(rows: list[Row], modes: list[int]) -> Check:
    """Too few modes hurt: the error with the fewest is well above the best."""
    fewest, best = (
        _error(rows, modes[0], "full"),
        min((e for n in modes if (e := _error(rows, n, "full"))), default=None),
    )
    percent = excess(fewest, best)
    if percent is None:
        return Check(False, f"with {modes[0]} modes a training diverged")
    return Check(percent > 10, f"with {modes[0]} modes full's error is {percent:.0f}% above the best")


def _check_flat(rows: list[Row], modes: list[int], grid: int) -> tuple[Check, ...]:
    half = [n for n in modes if 2 * n >= grid]
    return tuple(_flat(rows, half, method) for method in METHODS)


def _flat(rows: list[Row], modes: list[int], method: str) -> Check:
    percent = excess(_error(rows, modes[-1], method), _error(rows, modes[0], method))
    if percent is None:
        return Check(False, f"{method} diverged with {modes[0]} modes or more")
    clause = f"from {modes[0]} modes (half the grid) to {modes[-1]} the error of {method} changes by {percent:+.1f}%"
    return Check(abs(percent) <= FLAT, clause)


def _line(rows: list[Row], method: str, modes: int, grid: int) -> Line:
    found = select(rows, modes=modes, method=method)
    against = None if method == "full" else excess(mean(found, "h1"), _error(rows, modes, "full"))
    ours = (
        with_deviation(found, "h1"), with_deviation(found, "l2"), against, mean(found, "seconds_per_epoch"),
    )  # fmt: skip
    return Line((modes * PAPER_GRID // grid, modes, LABELS[method]), (None,) * 4, ours)


def _panel(rows: list[Row], error: str, modes: list[int]) -> Panel:
    series = []
    for method in METHODS:
        found = [(n, select(rows, modes=n, method=method)) for n in modes]
        known = [(n, value, deviation(r, error)) for n, r in found if (value := mean(r, error)) is not None]
        x, y, bars = zip(*known, strict=True) if known else ((), (), ())
        series.append(Series(LABELS[method], x, y, error=bars))
    return Panel(error.upper(), "modes along each axis", "test error", tuple(series), xlog=True, ylog=True)


EXPERIMENT = Experiment(
    name="frequency-modes",
    source="Figure 'Comparison of the Full-FNO and Mixed-FNO with different frequency modes', L2 and H1",
    question="How many frequency modes are needed, and does half precision change that?",
    claim="Few modes hurt accuracy, more than half the grid's gain nothing, full and mixed precision hardly differ.",
    measures=(
        Measure("l2", "relative L2 error on the test split"),
        Measure("h1", "relative H1 error on the test split"),
        Measure("seconds_per_epoch", "median over epochs", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda trial: (trial.training,),
)
