"""error-curves: test error over the epochs, full against the paper's method and ours, over seeds, on four problems.

`ahmed` is the same on another geometry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part, all_of
from halfwave.experiments.experiment import PEAK_MEMORY, SCALES, Experiment, Fact, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    BODIES,
    COMPARED,
    FP16_MIXED,
    LABELS,
    deviation,
    further_seeds,
    mean,
    memory_of,
    methods_on,
    seeds_on,
    select,
    train_as,
    training_facts,
    with_deviation,
)
from halfwave.experiments.pairing import Paired, pair
from halfwave.recipes import TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

PROBLEMS = ("navier-stokes", "darcy", "car", "shallow-water")
METHODS = ("full", "paper", "ours", "ours-bf16")
# The error that the paper draws: H1 where it trains on it.
ERRORS = {"navier-stokes": "h1", "darcy": "h1", "car": "l2", "shallow-water": "l2", "ahmed": "l2"}
MEASURES = (
    Measure("epoch", "from 1"),
    Measure("last", "whether it is the last epoch"),
    *ASSESSED,
    PEAK_MEMORY,
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
        _curve(name, method, seed, scale)
        for name in problems
        for method in methods_on(name, scale, METHODS)
        for seed in seeds_on(name, scale)
    ]


def further_curves(scale: Scale, rows: list[Row]) -> list[Curve]:
    """The stopping rule, on the final errors."""
    problems = [n for n in dict.fromkeys(row["problem"] for row in rows) if n not in BODIES]
    finals = select(rows, last=True)
    return [
        _curve(name, method, seed, scale)
        for name in problems
        for _, seed in further_seeds(finals, scale, [{"problem": name}], FP16_MIXED)
        for method in COMPARED
    ]


def _curve(name: str, method: str, seed: int, scale: Scale) -> Curve:
    return Curve(name, method, seed, train_as(method, problem(name, scale), seed))


def measure_curve(curve: Curve, lab: Lab) -> list[dict[str, Any]]:
    """A row for each epoch with an evaluation; a training that diverged has one last row without errors."""
    trained, assessed = lab.train(curve.training), lab.assess(curve.training)
    memory = memory_of(trained)["peak_memory_bytes"]
    last = curve.training.config("").epochs
    rows = []
    for row in trained.epochs:
        if row["test_l2"] is not None and row["epoch"] != last:
            errors = {name: row[f"test_{name}"] for name in ("l2", "h1", "l2_full", "h1_full")}
            rows.append({**assessed, **errors, "epoch": row["epoch"], "last": False, "peak_memory_bytes": memory})
    return [*rows, {**assessed, "epoch": last, "last": True, "peak_memory_bytes": memory}]


def exhibit_curves(rows: list[Row], notes: tuple[str, ...]) -> Exhibit:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "error", "method"),
            ("final", "against full [90%]", "largest difference of the curves, %", "rounding of the answer",
             "linear predictor, L2", "memory saved, %"),
            tuple(_line(rows, name, m) for name in problems for m in METHODS if select(rows, problem=name, method=m)),
        ),
        tuple(_panel(rows, name) for name in problems),
        (*notes, "Bars are the deviation over seeds. The paper draws the curves and prints none of their values."),
    )  # fmt: skip


def curve_parts(problems: Sequence[str], line: int) -> tuple[Part, ...]:
    """Throughout and at the end, for the paper's method and for ours."""
    parts = []
    for name in problems:
        title, error = TITLES[name], ERRORS[name].upper()
        parts += [
            Part(f"{who} {error} stays within 1% of full's throughout training on {title}", "1%", line,
                 partial(_check_throughout, name, method))
            for method, who in (("paper", "the paper's method's"), ("ours", "our method's"))
        ]  # fmt: skip
        parts += [
            Part(
                f"{who} final {error} is within 1% of full's on {title}", "1%", 366, partial(_check_final, name, method)
            )
            for method, who in (("paper", "the paper's method's"), ("ours", "our method's"))
        ]
    return tuple(parts)


def curve_facts(curve: Curve, rows: list[Row]) -> list[Fact]:
    return [fact for row in select(rows, last=True) for fact in training_facts(curve.training, row)]


def _pairs(rows: list[Row], name: str, method: str) -> dict[int, Paired]:
    """By epoch, where full and the method have a value for each seed."""
    epochs = sorted({row["epoch"] for row in rows if row["problem"] == name})
    own, full = (select(rows, problem=name, method=m) for m in (method, "full"))
    found = {epoch: pair(select(own, epoch=epoch), select(full, epoch=epoch), ERRORS[name]) for epoch in epochs}
    return {epoch: paired for epoch, paired in found.items() if paired is not None}


def _gate(rows: list[Row], name: str, method: str) -> str:
    return closed(*(select(rows, problem=name, method=m, last=True) for m in ("full", method)))


def _check_throughout(name: str, method: str, rows: list[Row]) -> Outcome | None:
    pairs = _pairs(rows, name, method)
    outcome = all_of((paired.within(f"epoch {epoch}:") for epoch, paired in pairs.items()), "evaluations")
    if outcome is None:
        return None
    worst = max(pairs.values(), key=lambda paired: abs(paired.mean))
    held = sum(paired.within("").status == outcome.status for paired in pairs.values())
    clause = f"{LABELS[method]} on {TITLES[name]}: {held} of {len(pairs)} evaluations, furthest {worst}"
    return behind_gate(Outcome(outcome.status, clause), _gate(rows, name, method))


def _check_final(name: str, method: str, rows: list[Row]) -> Outcome | None:
    pairs = _pairs(select(rows, last=True), name, method)
    if not pairs:
        return None
    [paired] = pairs.values()
    outcome = paired.within(f"{LABELS[method]} on {TITLES[name]}, final {ERRORS[name].upper()} against full")
    return behind_gate(outcome, _gate(rows, name, method))


def _line(rows: list[Row], name: str, method: str) -> Line:
    found = select(rows, problem=name, method=method, last=True)
    pairs = {} if method == "full" else _pairs(rows, name, method)
    full = select(rows, problem=name, method="full", last=True)[0]["peak_memory_bytes"]
    own = found[0]["peak_memory_bytes"]
    ours = (
        with_deviation(found, ERRORS[name]),
        str(pairs[max(pairs)]) if pairs else None,
        max((abs(paired.percent) for paired in pairs.values()), default=None),
        None if method == "full" else mean(found, "rounding"),
        mean(found, "linear_l2") if method == "full" else None,
        None if method == "full" or not own or not full else 100 * (1 - own / full),
    )
    return Line((TITLES[name], ERRORS[name].upper(), LABELS[method]), (None,) * 6, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    return Panel(
        TITLES[name],
        "epoch",
        f"test error, {ERRORS[name].upper()}",
        tuple(_series(rows, name, m) for m in METHODS if select(rows, problem=name, method=m)),
        ylog=True,
    )


def _series(rows: list[Row], name: str, method: str) -> Series:
    points = []
    for epoch in sorted({row["epoch"] for row in rows if row["problem"] == name}):
        found = select(rows, problem=name, method=method, epoch=epoch)
        value = mean(found, ERRORS[name]) if found else None
        if value is not None:
            points.append((epoch, value, deviation(found, ERRORS[name])))
    epochs, values, deviations = zip(*points, strict=True) if points else ((), (), ())
    return Series(method, epochs, values, error=deviations)


EXPERIMENT = Experiment(
    name="error-curves",
    source="Figure 'Test H1 error curves', section 'Error Comparison with Full-Precision', and its twin",
    question="Does mixed precision learn as well as full precision throughout a training?",
    claim="Test errors of mixed precision stay within 1% of full precision's with the same hyperparameters.",
    parts=curve_parts(PROBLEMS, 384),
    measures=MEASURES,
    configurations=lambda scale: curves(PROBLEMS, scale),
    measure=measure_curve,
    exhibit=lambda rows: exhibit_curves(rows, ()),
    trainings=lambda curve: (curve.training,),
    further=further_curves,
    facts=curve_facts,
    scales=SCALES,
)
