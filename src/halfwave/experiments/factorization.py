"""factorization: mixed precision with CP-factorized and with dense spectral weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, check_close, deviation, errors_of, excess, mean, select, with_deviation
from halfwave.recipes import TITLES, paper_setting, problem
from halfwave.report import Comparison, Line, Panel, Series, Summary, Verdict

PROBLEMS = ("navier-stokes", "darcy")
METHODS = ("full", "mixed")
WEIGHTS = {"cp": "CP", "dense": "dense"}
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1), "paper": (0, 1, 2)}
STEPS: dict[Scale, int] = {"smoke": 2, "small": 9, "paper": 50}


@dataclass(frozen=True)
class Pair:
    """Full and mixed precision on one problem with one kind of weights."""

    problem: str
    weights: str
    seed: int
    steps: int
    trainings: Mapping[str, Training]


def configurations(scale: Scale) -> list[Pair]:
    return [
        Pair(name, weights, seed, STEPS[scale], {m: _training(name, weights, m, seed, scale) for m in METHODS})
        for name in PROBLEMS
        for weights in WEIGHTS
        for seed in SEEDS[scale]
    ]


def _training(name: str, weights: str, method: str, seed: int, scale: Scale) -> Training:
    recipe = problem(name, scale)
    cp = {"factorization": "cp", "rank": paper_setting(name, "rank")}
    wanted = cp if weights == "cp" else {"factorization": None}
    # What the recipe has already is no change: the training is then shared with other experiments.
    same = all(recipe.arguments.get(key) == value for key, value in wanted.items())
    return Training(recipe, method, seed, {} if same else {"arguments": wanted})


def measure(pair: Pair, lab: Lab) -> list[dict[str, Any]]:
    steps = lab.compare(pair.trainings, pair.steps)
    return [
        {
            "method": method,
            **errors_of(lab.train(training)),
            "peak_memory_bytes": steps[method]["peak_memory_bytes"],
            "seconds_per_epoch": training.recipe.n_train / steps[method]["samples_per_second"],
        }
        for method, training in pair.trainings.items()
    ]


def summarise(rows: list[Row]) -> Summary:
    pairs = tuple(dict.fromkeys((row["problem"], row["weights"]) for row in rows))
    errors = {
        f"with {WEIGHTS[weights]} weights on {TITLES[name]}": _errors(rows, name, weights) for name, weights in pairs
    }
    return Summary(
        Comparison(
            ("dataset", "weights", "method"),
            ("error, H1", "error, L2", "H1 against full, %", "memory, MB", "seconds per epoch"),
            tuple(_line(rows, *pair, method) for pair in pairs for method in METHODS),
        ),
        tuple(_panel(rows, name) for name in dict.fromkeys(name for name, _ in pairs)),
        Verdict(check_close("mixed's H1 error", errors)),
        (
            "The paper draws a Pareto frontier and prints no values. Seconds are those of steps in turn, without "
            "evaluation; mixed is faster only where the processor multiplies fp16.",
        ),
    )


def _found(rows: list[Row], name: str, weights: str, method: str) -> list[Row]:
    return select(rows, problem=name, weights=weights, method=method)


def _errors(rows: list[Row], name: str, weights: str) -> tuple[float | None, float | None]:
    mixed, full = (mean(_found(rows, name, weights, method), "h1") for method in ("mixed", "full"))
    return mixed, full


def _line(rows: list[Row], name: str, weights: str, method: str) -> Line:
    found, full = (_found(rows, name, weights, m) for m in (method, "full"))
    ours = (
        with_deviation(found, "h1"),
        with_deviation(found, "l2"),
        None if method == "full" else excess(mean(found, "h1"), mean(full, "h1")),
        found[0]["peak_memory_bytes"] / 1e6,
        mean(found, "seconds_per_epoch"),
    )
    return Line((TITLES[name], WEIGHTS[weights], LABELS[method]), (None,) * 5, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    """Error over time: lower left is better."""
    series = []
    for weights, title in WEIGHTS.items():
        for method in METHODS:
            found = _found(rows, name, weights, method)
            error, seconds = mean(found, "h1"), mean(found, "seconds_per_epoch")
            if error is not None and seconds is not None:
                bars = (deviation(found, "h1"),)
                series.append(Series(f"{title}, {method}", (seconds,), (error,), "points", error=bars))
    return Panel(TITLES[name], "seconds per epoch", "test error, H1", tuple(series))


EXPERIMENT = Experiment(
    name="factorization",
    source="Figure 'our method accelerates training, whether with CP factorized weights or Dense unfactorized weights'",
    question="Does the method hold with factorized weights as it does with dense ones?",
    claim="With CP and with dense weights mixed precision costs no more than 1% in error.",
    measures=(
        Measure("method", "full or mixed"),
        Measure("l2", "relative L2 error on the test split"),
        Measure("h1", "relative H1 error on the test split"),
        Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
        Measure("seconds_per_epoch", "training steps of an epoch, methods in turn", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda pair: tuple(pair.trainings.values()),
)
