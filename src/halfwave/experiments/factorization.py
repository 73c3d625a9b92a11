"""factorization: mixed precision with CP-factorized and with dense spectral weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import NEEDS_GPU, Part
from halfwave.experiments.experiment import SCALES, STEP_MEMORY, Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    LABELS,
    against_full,
    deviation,
    judge_against_full,
    mean,
    measure_methods,
    method_facts,
    select,
    train_as,
    with_deviation,
)
from halfwave.recipes import TITLES, paper_setting, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

PROBLEMS = ("navier-stokes", "darcy")
METHODS = ("full", "paper", "ours")
WEIGHTS = {"cp": "CP", "dense": "dense"}
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1, 2), "medium": (0, 1, 2), "paper": (0, 1, 2)}
STEPS: dict[Scale, int] = {"smoke": 2, "small": 9, "medium": 9, "paper": 50}


@dataclass(frozen=True)
class Point:
    """The methods on one problem with one kind of weights."""

    problem: str
    weights: str
    seed: int
    steps: int
    trainings: Mapping[str, Training]


def configurations(scale: Scale) -> list[Point]:
    return [
        Point(name, weights, seed, STEPS[scale], _trainings(name, weights, seed, scale))
        for name in PROBLEMS
        for weights in WEIGHTS
        for seed in SEEDS[scale]
    ]


def _trainings(name: str, weights: str, seed: int, scale: Scale) -> dict[str, Training]:
    """At medium CP weights, which no other experiment has, by the paper's method alone."""
    methods = METHODS[:2] if scale == "medium" and weights == "cp" else METHODS
    return {method: _training(name, weights, method, seed, scale) for method in methods}


def _training(name: str, weights: str, method: str, seed: int, scale: Scale) -> Training:
    recipe = problem(name, scale)
    cp = {"factorization": "cp", "rank": paper_setting(name, "rank")}
    wanted = cp if weights == "cp" else {"factorization": None}
    # What the recipe has already is no change: the training is then shared with other experiments.
    same = all(recipe.arguments.get(key) == value for key, value in wanted.items())
    return train_as(method, recipe, seed, **({} if same else {"arguments": wanted}))


def measure(point: Point, lab: Lab) -> list[dict[str, Any]]:
    steps = lab.compare(point.trainings, point.steps)
    n_train = next(iter(point.trainings.values())).recipe.n_train
    return [
        {**row, "seconds_per_epoch": n_train / steps[row["method"]]["samples_per_second"]}
        for row in measure_methods(point.trainings, lab)
    ]


def exhibit(rows: list[Row]) -> Exhibit:
    groups = tuple(dict.fromkeys((row["problem"], row["weights"]) for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "weights", "method"),
            ("error, H1", "error, L2", "H1 against full [90%]", "memory, MB", "seconds per epoch"),
            tuple(_line(rows, *group, m) for group in groups for m in METHODS if _found(rows, *group, m)),
        ),
        tuple(_panel(rows, name) for name in dict.fromkeys(name for name, _ in groups)),
        (
            "The paper draws a Pareto frontier and prints no values. Seconds are those of steps in turn, without "
            "evaluation; mixed is faster only where the processor multiplies fp16.",
        ),
    )


def _found(rows: list[Row], name: str, weights: str, method: str) -> list[Row]:
    return select(rows, problem=name, weights=weights, method=method)


def _check(name: str, weights: str, method: str, rows: list[Row]) -> Outcome | None:
    """Without losing more than 1% in error."""
    return judge_against_full(
        rows, method, "h1", lambda paired, what: paired.at_most(what, 1.0), problem=name, weights=weights
    )


def _line(rows: list[Row], name: str, weights: str, method: str) -> Line:
    found = _found(rows, name, weights, method)
    paired = None if method == "full" else against_full(rows, method, "h1", problem=name, weights=weights)
    ours = (
        with_deviation(found, "h1"),
        with_deviation(found, "l2"),
        None if paired is None else str(paired),
        (found[0]["peak_memory_bytes"] or 0) / 1e6,
        mean(found, "seconds_per_epoch"),
    )
    return Line((TITLES[name], WEIGHTS[weights], LABELS[method]), (None,) * 5, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    """Error over time: lower left is better."""
    series = []
    for weights, title in WEIGHTS.items():
        for method in METHODS:
            found = _found(rows, name, weights, method)
            if not found:
                continue
            error, seconds = mean(found, "h1"), mean(found, "seconds_per_epoch")
            if error is not None and seconds is not None:
                bars = (deviation(found, "h1"),)
                series.append(Series(f"{title}, {method}", (seconds,), (error,), "points", error=bars))
    return Panel(TITLES[name], "seconds per epoch", "test error, H1", tuple(series))


PARTS = (
    *(
        Part(
            f"{whose} H1 error is at most 1% above full's with {title} weights on {TITLES[name]}",
            "1%",
            458,
            partial(_check, name, weights, method),
        )
        for method, whose in (("paper", "the paper's method's"), ("ours", "our method's"))
        for weights, title in WEIGHTS.items()
        for name in PROBLEMS
    ),
    Part("the method accelerates training with either kind of weights", "the figure", 458, reason=NEEDS_GPU),
)
EXPERIMENT = Experiment(
    name="factorization",
    source="Figure 'our method accelerates training, whether with CP factorized weights or Dense unfactorized weights'",
    question="Does the method hold with factorized weights as it does with dense ones?",
    claim="With CP and with dense weights mixed precision costs no more than 1% in error.",
    parts=PARTS,
    measures=(
        Measure("method", "full, the paper's or ours"),
        *ASSESSED,
        *STEP_MEMORY,
        Measure("seconds_per_epoch", "training steps of an epoch, methods in turn", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda point: tuple(point.trainings.values()),
    facts=lambda point, rows: method_facts(point.trainings, rows),
    scales=SCALES,
)
