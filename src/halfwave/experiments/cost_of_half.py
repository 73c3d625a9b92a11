"""cost-of-half: what half precision costs, over the error that the model has reached.

Rounding that moves an answer by ρ (relative), independent of the model's error e, raises that to sqrt(e² + ρ²):

    cost = sqrt(1 + (ρ/e)²) - 1

The same format costs nothing at 10% error and much at 0.1%. Models of different quality are trained by each method, and
the weights of each full training are evaluated in each format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import SCALES, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, mean, select, train_as
from halfwave.experiments.pairing import pair
from halfwave.models import computing_in
from halfwave.precision import Policy
from halfwave.recipes import LINE, TITLES, problem
from halfwave.report import UNDETERMINED, Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import evaluate, rounding_of

METHODS = ("full", "paper", "ours", "ours-bf16")
FROZEN: Mapping[str, Policy] = {
    "mixed fp16": Policy.named("mixed", "fp16"),
    "mixed bf16": Policy.named("mixed", "bf16"),
    "half bf16": Policy.named("half", "bf16"),
    "stream bf16": Policy.named("stream", "bf16"),
}
# Parts of the recipe's epochs: a model of each quality is trained to its end, with its own learning rates.
LEVELS: Mapping[Scale, tuple[float, ...]] = {
    "smoke": (1.0,), "small": (0.25, 1.0), "medium": (0.075, 0.25, 1.0), "paper": (0.02, 0.1, 1.0),
}  # fmt: skip
PROBLEMS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("darcy",),
    "small": ("navier-stokes", "darcy"),
    "medium": ("navier-stokes", "darcy", "shallow-water", LINE),
    "paper": ("navier-stokes", "darcy"),
}
SEEDS: Mapping[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1), "medium": (0, 1), "paper": (0, 1, 2)}
FACTOR = 2.0
"""Within this factor the theory's curve is taken to be met."""
VISIBLE = 0.01
"""Costs below it are those of seeds, and of no curve."""


@dataclass(frozen=True)
class Quality:
    """One problem and seed trained for a part of the epochs by each method."""

    problem: str
    epochs: int
    seed: int
    trainings: Mapping[str, Training]


def configurations(scale: Scale) -> list[Quality]:
    return [
        _quality(name, level, seed, scale)
        for name in PROBLEMS[scale]
        for level in LEVELS[scale]
        for seed in SEEDS[scale]
    ]


def _quality(name: str, level: float, seed: int, scale: Scale) -> Quality:
    recipe = problem(name, scale)
    epochs = max(1, round(level * recipe.training["epochs"]))
    # Without a change the training is the one of 'overview'.
    changes = {} if epochs == recipe.training["epochs"] else {"epochs": epochs}
    return Quality(name, epochs, seed, {m: train_as(m, recipe, seed, **changes) for m in METHODS})


def measure(quality: Quality, lab: Lab) -> list[dict[str, Any]]:
    """A row for each method that was trained, and for each format that full's weights are evaluated in."""
    assessed = {method: lab.assess(training) for method, training in quality.trainings.items()}
    full = assessed["full"]
    baselines = {name: full[name] for name in ("mean_l2", "linear_l2")}
    rows = [
        {"source": "trained", "method": method, "l2": found["l2"], "full_l2": full["l2"], "rounding": found["rounding"],
         **baselines}
        for method, found in assessed.items()
    ]  # fmt: skip
    training = quality.trainings["full"]
    operator = lab.train(training).operator()
    samples = lab.test_samples(training, operator)
    for name, policy in FROZEN.items():
        with computing_in(operator, policy):
            error = evaluate(operator, samples)["l2"]
        moved = rounding_of(operator, samples, policy)
        rows.append(
            {"source": "frozen", "method": name, "l2": error, "full_l2": full["l2"], "rounding": moved, **baselines}
        )
    return rows


def predicted(rounding: float, error: float) -> float:
    """sqrt(1 + (ρ/e)²) - 1."""
    return math.sqrt(1 + (rounding / error) ** 2) - 1


def exhibit(rows: list[Row]) -> Exhibit:
    groups = tuple(dict.fromkeys((r["problem"], r["epochs"], r["source"], r["method"]) for r in rows))
    return Exhibit(
        Comparison(
            ("dataset", "epochs", "weights", "method or format"),
            ("full's error, L2", "error, L2", "rounding of the answer", "cost [90%]", "cost foretold, %"),
            tuple(_line(rows, *group) for group in groups if group[3] != "full"),
        ),
        (_panel(rows),),
        (
            "Not in the paper. trained: the method against full, from the same seed. frozen: full's weights evaluated "
            "in a format. Foretold: sqrt(1 + (rounding/error)^2) - 1, for rounding that does not know of the error.",
            _advice(rows),
        ),
    )


def _advice(rows: list[Row]) -> str:
    """The error below which a format costs more than 1%, from the rounding of full's weights."""
    texts = []
    for name in FROZEN:
        moved = mean(select(rows, source="frozen", method=name), "rounding")
        if moved:
            texts.append(f"{name} below an error of {100 * moved / math.sqrt(1.01**2 - 1):.2g}%")
    return f"By that curve a format costs more than 1%: {', '.join(texts)}."


def _found(rows: list[Row], name: str, epochs: int, source: str, method: str) -> list[Row]:
    return select(rows, problem=name, epochs=epochs, source=source, method=method)


def _line(rows: list[Row], name: str, epochs: int, source: str, method: str) -> Line:
    found = _found(rows, name, epochs, source, method)
    paired = pair(found, [{**row, "l2": row["full_l2"]} for row in found], "l2")
    error, moved = mean(found, "full_l2"), mean(found, "rounding")
    foretold = 100 * predicted(moved, error) if moved is not None and error else None
    ours = (error, mean(found, "l2"), moved, None if paired is None else str(paired), foretold)
    return Line((TITLES[name], epochs, source, LABELS.get(method, method)), (None,) * 5, ours)


def _panel(rows: list[Row]) -> Panel:
    """Costs over errors; a cost that is not positive has no place on a logarithmic axis and lies at its foot."""
    series = []
    for source, method in dict.fromkeys((row["source"], row["method"]) for row in rows):
        points = [
            (row["full_l2"], max(100 * (row["l2"] / row["full_l2"] - 1), 1e-3))
            for row in select(rows, source=source, method=method)
            if row["l2"] and row["full_l2"] and method != "full"
        ]
        if points:
            x, y = zip(*sorted(points), strict=True)
            series.append(Series(f"{source}: {method}", x, y, "points"))
    errors = [row["full_l2"] for row in rows if row["full_l2"]]
    for name in ("mixed fp16", "mixed bf16"):
        moved = mean(select(rows, source="frozen", method=name), "rounding")
        if moved and errors:
            x = tuple(min(errors) * (max(errors) / min(errors)) ** (k / 20) for k in range(21))
            series.append(Series(f"theory, {name}", x, tuple(100 * predicted(moved, e) for e in x), "dashed"))
    return Panel(
        "cost of half precision over the model's error",
        "L2 error in full precision",
        "error above full's, %",
        tuple(series),
        xlog=True,
        ylog=True,
    )


def _check_theory(method: str, rows: list[Row]) -> Outcome | None:
    """Where the curve says more than a percent, frozen weights meet it to a factor of two."""
    cases = []
    for row in select(rows, source="frozen", method=method):
        if row["l2"] and row["full_l2"] and row["rounding"]:
            foretold = predicted(row["rounding"], row["full_l2"])
            if foretold > VISIBLE:
                cases.append((row["l2"] / row["full_l2"] - 1) / foretold)
    if not cases:
        return Outcome(UNDETERMINED, f"{method}: at none of the errors reached does the curve say more than 1%")
    met = [case for case in cases if 1 / FACTOR <= case <= FACTOR]
    clause = f"{method}: {len(met)} of {len(cases)} costs are within a factor of {FACTOR:.0f} of the curve"
    return Outcome.of(len(met) == len(cases), f"{clause} ({min(cases):.2f} to {max(cases):.2f} times it)")


def _check_level(method: str, costs: bool, rows: list[Row]) -> Outcome | None:
    """At the smallest error that each problem reaches: does training by a method cost more than 1%?"""
    outcomes = []
    for name in dict.fromkeys(row["problem"] for row in rows):
        best = max(row["epochs"] for row in rows if row["problem"] == name)
        own, full = (_found(rows, name, best, "trained", m) for m in (method, "full"))
        paired = None if not own or not_learnt(full) else pair(own, full, "l2")
        if paired is not None:
            what = f"{TITLES[name]} at {100 * (mean(full, 'l2') or 0):.2g}%"
            outcomes.append(paired.above(what, 1.0) if costs else paired.at_most(what, 1.0))
    if not outcomes:
        return None
    statuses = [outcome.status for outcome in outcomes]
    status = max(set(statuses), key=statuses.count) if len(set(statuses)) == 1 else UNDETERMINED
    return Outcome(status, f"{LABELS[method]}: {'; '.join(outcome.clause for outcome in outcomes)}")


PARTS = (
    *(
        Part(f"rounding of frozen weights in {method} costs what the curve says", check=partial(_check_theory, method))
        for method in FROZEN
    ),
    Part("fp16 costs at most 1% at the smallest error of every problem", check=partial(_check_level, "ours", False)),
    Part(
        "the paper's method costs at most 1% at the smallest error of every problem",
        check=partial(_check_level, "paper", False),
    ),
    Part(
        "bf16 costs more than 1% at the smallest error of every problem", check=partial(_check_level, "ours-bf16", True)
    ),
)
EXPERIMENT = Experiment(
    name="cost-of-half",
    source="Our own; the paper's models all have errors of 0.2 to 1%",
    question="At which error of a model does half precision begin to cost?",
    claim="Half precision costs sqrt(1 + (rounding/error)^2) - 1: nothing at large errors, in bf16 much below 1%.",
    parts=PARTS,
    measures=(
        Measure("source", "trained by a method, or frozen weights of full in a format"),
        Measure("method", "the method or the format"),
        Measure("l2", "relative L2 error on the test split"),
        Measure("full_l2", "that of the training in full precision of the same seed and epochs"),
        Measure("rounding", "relative distance of the answers from those of the same weights in full precision"),
        Measure("mean_l2", "relative L2 error of the mean of the train targets"),
        Measure("linear_l2", "relative L2 error of a linear map"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda quality: tuple(quality.trainings.values()),
    scales=SCALES,
)
