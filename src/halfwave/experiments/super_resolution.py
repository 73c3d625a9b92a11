"""super-resolution: operators trained on one grid, tested on finer ones, by full, mixed and scheduled precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from halfwave.data import Dataset
from halfwave.experiments.budgets import epochs_of, navier_stokes
from halfwave.experiments.claims import Part, all_of
from halfwave.experiments.experiment import SCALES, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed, not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, SEEDS, deviation, mean, select, with_deviation
from halfwave.experiments.pairing import Paired, pair
from halfwave.recipes import Recipe
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import evaluate

FACTORS = (1, 2, 4, 8)
# (H1, L2) at 128, 256, 512 and 1024 points a side; lines 404 to 406.
PAPER = {
    "full": ((0.00557, 0.00213), (0.00597, 0.00213), (0.00610, 0.00213), (0.00616, 0.00213)),
    "paper": ((0.00624, 0.00236), (0.00672, 0.00228), (0.00688, 0.00226), (0.00693, 0.00226)),
    "schedule": ((0.00503, 0.00170), (0.00542, 0.00170), (0.00555, 0.00170), (0.00558, 0.00170)),
}
METHODS = (*PAPER, "schedule-ours")
# The paper's 2,000 test samples (line 1175) are those of its dataset.
TEST_SAMPLES: dict[Scale, int] = {"smoke": 2, "small": 12, "medium": 12, "paper": 2000}
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
        for method in METHODS
        for seed in SEEDS[scale]
        for training in [navier_stokes(method, "time", scale, seed)]
    ]


def finest_test(recipe: Recipe, samples: int) -> Recipe:
    """The first test samples of a recipe, solved on the finest grid: every coarser one keeps some of its points."""
    finest = FACTORS[-1] * recipe.parameters["resolution"]
    kept = {name: value for name, value in recipe.parameters.items() if name != "solve_resolution"}
    return replace(recipe, parameters={**kept, "resolution": finest, "dtype": "float32"}, n_train=1, n_test=samples)


def measure(trial: Trial, lab: Lab) -> list[dict[str, Any]]:
    trained, assessed = lab.train(trial.training), lab.assess(trial.training)
    known = {name: assessed[name] for name in ("rounding", "mean_l2", "linear_l2")}
    coarsest = trial.training.recipe.parameters["resolution"]
    grids = [factor * coarsest for factor in FACTORS]
    if trained.diverged:
        return [{"resolution": grid, "l2": None, "h1": None, **known} for grid in grids]
    operator, dataset = trained.operator(), lab.dataset(trial.finest, trial.training.data_seed)
    assert isinstance(dataset, Dataset)
    return [
        {"resolution": grid, **{name: errors[name] for name in ERRORS}, **known}
        for grid in grids
        for errors in [evaluate(operator, dataset.test, batch_size=4, resolution=grid)]
    ]


def exhibit(rows: list[Row]) -> Exhibit:
    grids = _grids(rows)
    lines = tuple(_line(rows, method, place, grid) for method in METHODS for place, grid in enumerate(grids))
    epochs = {precision: epochs_of(precision, 100) for precision in ("mixed", "schedule")}
    return Exhibit(
        Comparison(
            ("method", "grid, paper", "grid, ours"),
            ("error, H1", "error, L2", "H1 against full [90%]", "L2 against full [90%]"),
            lines,
        ),
        tuple(_panel(rows, error, grids) for error in ERRORS),
        (
            f"As in the paper all have the time of full precision, at the speeds of its GPU: to 100 epochs in full, "
            f"{epochs['mixed']} mixed and {epochs['schedule']} by the schedule.",
            "The same test samples on every grid: solved on the finest, the others keep some of its points.",
        ),
    )


def _grids(rows: list[Row]) -> list[int]:
    return sorted({row["resolution"] for row in rows})


def _paired(rows: list[Row], method: str, other: str, grid: int, error: str) -> Paired | None:
    own, theirs = (select(rows, method=m, resolution=grid) for m in (method, other))
    return pair(own, theirs, error)


def _check(rows: list[Row], method: str, other: str, judge: Callable[[Paired, str], Outcome]) -> Outcome | None:
    """What `judge` says in both errors on every grid, behind the gate."""
    outcomes = [
        judge(paired, f"{error.upper()} on {grid}x{grid}")
        for error in ERRORS
        for grid in _grids(rows)
        if (paired := _paired(rows, method, other, grid, error)) is not None
    ]
    outcome = all_of(outcomes, f"{LABELS[method]} against {LABELS[other]}")
    if outcome is None:
        return None
    coarsest = _grids(rows)[0]
    why = closed(*(select(rows, method=m, resolution=coarsest) for m in ("full", "paper")))
    return behind_gate(outcome, why)


def _check_flat(rows: list[Row]) -> Outcome | None:
    """Discretization convergence: full's L2 error on the finest grid is that on the trained one, to 1%."""
    first, last = (select(rows, method="full", resolution=grid) for grid in (_grids(rows)[0], _grids(rows)[-1]))
    paired = pair(last, first, "l2")
    if paired is None:
        return None
    what = f"full's L2 on {_grids(rows)[-1]} against {_grids(rows)[0]} points a side"
    return behind_gate(paired.within(what), not_learnt(first))


def _line(rows: list[Row], method: str, place: int, grid: int) -> Line:
    found = select(rows, method=method, resolution=grid)
    against = [None if method == "full" else _paired(rows, method, "full", grid, error) for error in ERRORS]
    ours = (*(with_deviation(found, e) for e in ERRORS), *(None if p is None else str(p) for p in against))
    paper = PAPER[method][place] if method in PAPER else (None, None)
    return Line((LABELS[method], 128 * FACTORS[place], grid), (*paper, None, None), ours)


def _panel(rows: list[Row], error: str, grids: list[int]) -> Panel:
    series = []
    for method in METHODS:
        found = [(grid, select(rows, method=method, resolution=grid)) for grid in grids]
        known = [(grid, value, deviation(r, error)) for grid, r in found if (value := mean(r, error)) is not None]
        x, y, bars = zip(*known, strict=True) if known else ((), (), ())
        series.append(Series(method, x, y, error=bars))
    return Panel(f"{error.upper()}", "test grid, points a side", "relative error", tuple(series), xlog=True)


PARTS = (
    Part(
        "mixed precision loses a little against full on every grid",
        "+11% in L2, +12% in H1 at 128x128",
        412,
        lambda rows: _check(rows, "paper", "full", lambda paired, what: paired.above(what)),
    ),
    Part(
        "the precision schedule is significantly better than full on every grid",
        "-20% in L2, -10% in H1",
        406,
        lambda rows: _check(rows, "schedule", "full", lambda paired, what: paired.below(what)),
    ),
    Part(
        "the precision schedule is the best of the three on every grid",
        "0.00170 against 0.00236 in L2",
        406,
        lambda rows: _check(rows, "schedule", "paper", lambda paired, what: paired.below(what)),
    ),
    Part(
        "full's L2 error is the same on a grid eight times as fine",
        "0.00213 on all grids",
        404,
        _check_flat,
    ),
    Part(
        "our schedule is better than full on every grid",
        check=lambda rows: _check(rows, "schedule-ours", "full", lambda paired, what: paired.below(what)),
    ),
)
EXPERIMENT = Experiment(
    name="super-resolution",
    source="Table 'Zero-shot super resolution', section 'Error Comparison with Full-Precision'",
    question="How do operators trained in each precision do on grids finer than that of their training?",
    claim="Mixed precision loses a little against full, and a precision schedule is better than full on every grid.",
    parts=PARTS,
    measures=(
        Measure("resolution", "points a side of the test grid"),
        Measure("l2", "relative L2 error on the test samples"),
        Measure("h1", "relative H1 error"),
        Measure("rounding", "relative distance of the answers as trained from those in full, on the trained grid"),
        Measure("mean_l2", "relative L2 error of the mean of the train targets"),
        Measure("linear_l2", "relative L2 error of a linear map"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda trial: (trial.training,),
    scales=SCALES,
)
