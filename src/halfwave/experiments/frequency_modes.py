"""frequency-modes: error by the number of kept frequencies, in full and mixed precision, on Darcy flow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part, all_of
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed, not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    LABELS,
    against_full,
    deviation,
    judge_against_full,
    mean,
    seconds_per_epoch,
    select,
    train_as,
    training_facts,
    with_deviation,
)
from halfwave.experiments.pairing import Paired, pair
from halfwave.recipes import problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

METHODS = ("full", "paper", "ours")
# The paper keeps 16, 32, 64 and 128 modes of a grid of 128: these parts of the grid.
SHARES = (8, 4, 2, 1)
PAPER_GRID = 128
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1), "paper": (0, 1, 2)}
HURT = 10.0  # percent: what 'substantially' is taken for, of accuracy and of time


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
        for part in SHARES
        for method in METHODS
        for seed in SEEDS[scale]
    ]


def _training(modes: int, method: str, seed: int, scale: Scale) -> Training:
    recipe = problem("darcy", scale)
    same = recipe.arguments["n_modes"] == [modes, modes]  # then it is shared with other experiments
    return train_as(method, recipe, seed, **({} if same else {"arguments": {"n_modes": [modes, modes]}}))


def measure(trial: Trial, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(trial.training)
    return [{**lab.assess(trial.training), "seconds_per_epoch": seconds_per_epoch(trained)}]


def exhibit(rows: list[Row]) -> Exhibit:
    grid = rows[0]["grid"]
    modes = sorted({row["modes"] for row in rows})
    lines = tuple(_line(rows, method, n, grid) for n in modes for method in METHODS)
    return Exhibit(
        Comparison(
            ("modes, paper", "modes, ours", "method"),
            ("error, H1", "error, L2", "H1 against full [90%]", "seconds per epoch"),
            lines,
        ),
        tuple(_panel(rows, error, modes) for error in ("h1", "l2")),
        (f"The same parts of the grid as in the paper, of {grid} points a side rather than {PAPER_GRID}.",)
        if grid != PAPER_GRID
        else (),
    )


def _modes(rows: list[Row]) -> list[int]:
    return sorted({row["modes"] for row in rows})


def _check_few(rows: list[Row]) -> Outcome | None:
    """The fewest modes against the most, in full precision."""
    fewest, most = (select(rows, modes=_modes(rows)[place], method="full") for place in (0, -1))
    paired = pair(fewest, most, "h1")
    if paired is None:
        return None
    what = f"full's H1 error with {_modes(rows)[0]} modes against that with {_modes(rows)[-1]}"
    return behind_gate(paired.above(what, HURT), not_learnt(most))


def _check_time(rows: list[Row]) -> Outcome | None:
    """All modes of the grid against half of them; medians of epochs on this machine."""
    half, most = (mean(select(rows, modes=n, method="full"), "seconds_per_epoch") for n in _modes(rows)[-2:])
    if half is None or most is None:
        return None
    change = 100 * (most / half - 1)
    clause = f"an epoch in full with {_modes(rows)[-1]} modes takes {change:+.0f}% against {_modes(rows)[-2]}"
    return Outcome.of(change > HURT, clause)


def _check_close(method: str, rows: list[Row]) -> Outcome | None:
    return all_of(
        (
            judge_against_full(rows, method, "h1", lambda paired, what: paired.within(what), modes=modes)
            for modes in _modes(rows)
        ),
        "numbers of modes",
    )


def _check_fewest_worst(rows: list[Row]) -> Outcome | None:
    """Mixed against full: its loss with the fewest modes is above that with any other number."""
    pairs = {modes: against_full(rows, "paper", "h1", modes=modes) for modes in _modes(rows)}
    known = {modes: paired for modes, paired in pairs.items() if paired is not None}
    if len(known) < len(pairs):
        return None
    first, *others = known.values()
    apart = [Paired(tuple(a - b for a, b in zip(first.differences, o.differences, strict=True))) for o in others]
    outcome = all_of((paired.above(f"against {n} modes") for n, paired in zip(list(known)[1:], apart, strict=True)))
    assert outcome is not None
    why = closed(*(select(rows, modes=_modes(rows)[0], method=m) for m in ("full", "paper")))
    return behind_gate(outcome, why)


def _line(rows: list[Row], method: str, modes: int, grid: int) -> Line:
    found = select(rows, modes=modes, method=method)
    paired = None if method == "full" else against_full(rows, method, "h1", modes=modes)
    against = None if paired is None else str(paired)
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


PARTS = (
    Part("too few modes hurt accuracy substantially", "substantially", 469, _check_few),
    Part("too many modes increase the runtime substantially", "substantially", 469, _check_time),
    Part(
        "with every number of modes the paper's method is full precision to 1%",
        "not a significant difference",
        470,
        partial(_check_close, "paper"),
    ),
    Part("with every number of modes ours is full precision to 1%", "", None, partial(_check_close, "ours")),
    Part("half precision loses more with the fewest modes than with others", "16 modes", 1410, _check_fewest_worst),
)
EXPERIMENT = Experiment(
    name="frequency-modes",
    source="Figure 'Comparison of the Full-FNO and Mixed-FNO with different frequency modes', L2 and H1",
    question="How many frequency modes are needed, and does half precision change that?",
    claim="Few modes hurt accuracy, more than half the grid's gain nothing, full and mixed precision hardly differ.",
    parts=PARTS,
    measures=(
        *ASSESSED,
        Measure("seconds_per_epoch", "median over epochs", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda trial: (trial.training,),
    facts=lambda trial, rows: [fact for row in rows for fact in training_facts(trial.training, row)],
)
