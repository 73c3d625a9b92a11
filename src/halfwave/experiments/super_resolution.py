"""super-resolution: operators trained on one grid, tested on finer ones, by full, mixed and scheduled precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from halfwave.data import Dataset
from halfwave.experiments.budgets import epochs_of, navier_stokes
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, SEEDS, check_close, deviation, mean, select, with_deviation
from halfwave.recipes import Recipe
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict
from halfwave.training import evaluate

FACTORS = (1, 2, 4, 8)
# (H1, L2) at 128, 256, 512 and 1024 points a side.
PAPER = {
    "full": ((0.00557, 0.00213), (0.00597, 0.00213), (0.00610, 0.00213), (0.00616, 0.00213)),
    "mixed": ((0.00624, 0.00236), (0.00672, 0.00228), (0.00688, 0.00226), (0.00693, 0.00226)),
    "schedule": ((0.00503, 0.00170), (0.00542, 0.00170), (0.00555, 0.00170), (0.00558, 0.00170)),
}
TEST_SAMPLES: dict[Scale, int] = {"smoke": 2, "small": 12, "paper": 200}
ERRORS = ("h1", "l2")


@dataclass(frozen=True)
class Trial:
    """One training, and the finest test set."""

    method: str
    seed: int
    training: Training
    finest: Recipe


def configurations(scale: Scale) -> list[Trial]:
    return [
        Trial(method, seed, training, finest_test(training.recipe, TEST_SAMPLES[scale]))
        for method in PAPER
        for seed in SEEDS[scale]
        for training in [navier_stokes(method, "time", scale, seed)]
    ]


def finest_test(recipe: Recipe, samples: int) -> Recipe:
    """The first test samples of a recipe, solved on the finest grid: every coarser one keeps some of its points."""
    finest = FACTORS[-1] * recipe.parameters["resolution"]
    return replace(recipe, parameters={"resolution": finest, "dtype": "float32"}, n_train=1, n_test=samples)


def measure(trial: Trial, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(trial.training)
    coarsest = trial.training.recipe.parameters["resolution"]
    grids = [factor * coarsest for factor in FACTORS]
    lost = {"l2": None, "h1": None}
    if trained.diverged:
        return [{"resolution": grid, **lost} for grid in grids]
    operator, dataset = trained.operator(), lab.dataset(trial.finest)
    assert isinstance(dataset, Dataset)
    return [
        {"resolution": grid, **{name: errors[name] for name in ERRORS}}
        for grid in grids
        for errors in [evaluate(operator, dataset.test, batch_size=4, resolution=grid)]
    ]


def summarise(rows: list[Row]) -> Summary:
    grids = sorted({row["resolution"] for row in rows})
    lines = tuple(_line(rows, method, place, grid) for method in PAPER for place, grid in enumerate(grids))
    panels = tuple(_panel(rows, error, grids) for error in ERRORS)
    epochs = {method: epochs_of(method, 100) for method in ("mixed", "schedule")}
    return Summary(
        Comparison(("method", "grid, paper", "grid, ours"), ("error, H1", "error, L2"), lines),
        panels,
        # At least as good on every grid: the mean over seeds is not above full's.
        Verdict((*check_close("the schedule's error", _pairs(rows, grids), limit=0.0), _flat(rows, grids))),
        (
            f"As in the paper all have the time of full precision, at the speeds of its GPU: to 100 epochs in full, "
            f"{epochs['mixed']} mixed and {epochs['schedule']} by the schedule.",
            "The same test samples on every grid: solved on the finest, the others keep some of its points.",
        ),
    )


def _pairs(rows: list[Row], grids: list[int]) -> dict[str, tuple[float | None, float | None]]:
    """Errors of the schedule and of full precision, H1 and L2 on each grid."""

    def error(method: str, grid: int, name: str) -> float | None:
        return mean(select(rows, method=method, resolution=grid), name)

    return {
        f"in {name.upper()} on {grid}x{grid}": (error("schedule", grid, name), error("full", grid, name))
        for name in ERRORS
        for grid in grids
    }


def _flat(rows: list[Row], grids: list[int]) -> Check:
    """Discretization convergence: the L2 error on the finest grid is near that on the trained one."""
    first, last = (mean(select(rows, method="full", resolution=grid), "l2") for grid in (grids[0], grids[-1]))
    if first is None or last is None:
        return Check(False, "full precision diverged")
    factor = last / first
    return Check(factor < 1.25, f"from {grids[0]} to {grids[-1]} points a side full's L2 error grows {factor:.2f}-fold")


def _line(rows: list[Row], method: str, place: int, grid: int) -> Line:
    found = select(rows, method=method, resolution=grid)
    ours = tuple(with_deviation(found, error) for error in ERRORS)
    return Line((LABELS[method], 128 * FACTORS[place], grid), PAPER[method][place], ours)


def _panel(rows: list[Row], error: str, grids: list[int]) -> Panel:
    series = []
    for method in PAPER:
        found = [(grid, select(rows, method=method, resolution=grid)) for grid in grids]
        known = [(grid, value, deviation(r, error)) for grid, r in found if (value := mean(r, error)) is not None]
        x, y, bars = zip(*known, strict=True) if known else ((), (), ())
        series.append(Series(LABELS[method], x, y, error=bars))
    return Panel(f"{error.upper()}", "test grid, points a side", "relative error", tuple(series), xlog=True)


EXPERIMENT = Experiment(
    name="super-resolution",
    source="Table 'Zero-shot super resolution', section 'Error Comparison with Full-Precision'",
    question="How do operators trained in each precision do on grids finer than that of their training?",
    claim="Mixed precision loses a little against full, and a precision schedule is better than full on every grid.",
    measures=(
        Measure("resolution", "points a side of the test grid"),
        Measure("l2", "relative L2 error on the test samples"),
        Measure("h1", "relative H1 error"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda trial: (trial.training,),
)
