"""tanh-ablation: what tanh before the transform does to full precision, which does not need it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.recipes import problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict, plus_minus

# H1, L2, seconds per epoch on Navier-Stokes.
PAPER = {"none": (0.0121, 0.00470, 51.72), "tanh": (0.0122, 0.00465, 52.56)}
SEEDS: Mapping[Scale, int] = {"smoke": 1, "small": 3, "paper": 3}
TITLES = {"none": "full precision", "tanh": "full precision + tanh"}


@dataclass(frozen=True)
class Ablation:
    """Full precision on Navier-Stokes, with or without tanh."""

    stabilizer: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[Ablation]:
    recipe = problem("navier-stokes", scale)
    # Without tanh it is the plain training of other experiments, which auto leaves alone in full precision.
    changes: Mapping[str, dict[str, str]] = {"none": {}, "tanh": {"stabilizer": "tanh"}}
    return [
        Ablation(name, seed, Training(recipe, "full", seed, changes[name]))
        for name in PAPER
        for seed in range(SEEDS[scale])
    ]


def measure(ablation: Ablation, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(ablation.training)
    if trained.result is None:
        raise RuntimeError(f"full precision diverged: {trained.reason}")
    return [
        {
            "test_h1": trained.result.h1,
            "test_l2": trained.result.l2,
            "seconds_per_epoch": statistics.median(row["seconds"] for row in trained.epochs),
        }
    ]


def summarise(rows: list[Row]) -> Summary:
    found = {name: [row for row in rows if row["stabilizer"] == name] for name in PAPER}
    lines = tuple(_line(name, seeds) for name, seeds in found.items())
    names = tuple(TITLES[name] for name in found)
    bars = tuple(
        Series(
            label,
            names,
            tuple(statistics.fmean(row[column] for row in seeds) for seeds in found.values()),
            "bars",
            tuple(_deviation([row[column] for row in seeds]) for seeds in found.values()),
        )
        for label, column in (("H1", "test_h1"), ("L2", "test_l2"))
    )
    return Summary(
        Comparison(("model",), ("H1", "L2", "seconds per epoch"), lines),
        (Panel("test error", "", "relative error", bars),),
        Verdict(tuple(_check(found, label, column) for label, column in (("H1", "test_h1"), ("L2", "test_l2")))),
        ("Mean and deviation over seeds.",),
    )


def _line(name: str, seeds: list[Row]) -> Line:
    ours = tuple(plus_minus([row[column] for row in seeds]) for column in ("test_h1", "test_l2", "seconds_per_epoch"))
    return Line((TITLES[name],), PAPER[name], ours)


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _check(found: Mapping[str, list[Row]], label: str, column: str) -> Check:
    """Not noticeable: within 2% of full precision, or within what the seeds differ by."""
    plain, tanh = ([row[column] for row in found[name]] for name in ("none", "tanh"))
    change = statistics.fmean(tanh) / statistics.fmean(plain) - 1
    noise = (_deviation(plain) + _deviation(tanh)) / statistics.fmean(plain)
    side = "higher" if change > 0 else "lower"
    clause = f"the {label} error with tanh is {100 * abs(change):.1f}% {side} (seeds differ by {100 * noise:.1f}%)"
    return Check(change <= max(0.02, noise), clause)


EXPERIMENT = Experiment(
    name="tanh-ablation",
    source="Table 'Ablation study on full-precision FNO with and without tanh'",
    question="Does tanh before the transform harm a model in full precision?",
    claim="There is no noticeable change in accuracy.",
    measures=(
        Measure("test_h1", "relative H1 on the test split"),
        Measure("test_l2", "relative L2 on the test split"),
        Measure("seconds_per_epoch", "median over epochs", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda ablation: (ablation.training,),
)
