"""train-in-half: where a training in half precision loses, in its updates or in its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import SCALES, STEP_MEMORY, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    BODIES,
    COMPARED,
    FP16_MIXED,
    LABELS,
    further_seeds,
    mean,
    measure_methods,
    method_facts,
    methods_on,
    seeds_on,
    select,
    train_as,
    with_deviation,
)
from halfwave.experiments.pairing import Paired, pair
from halfwave.recipes import LINE, PROBLEMS, TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

METHODS = ("full", "paper", "ours", "ours-bf16")
# What the spectral layers alone do in training, on the problems that are cheap.
SPECTRAL = "half-bf16"
SPECTRAL_ON = ("navier-stokes", "darcy")


@dataclass(frozen=True)
class Point:
    """One problem and seed, trained by each method."""

    problem: str
    seed: int
    trainings: Mapping[str, Training]


def configurations(scale: Scale) -> list[Point]:
    problems = {"smoke": ("darcy",), "medium": (*PROBLEMS, LINE)}.get(scale, PROBLEMS)
    return [_point(name, seed, scale, _methods(name, scale)) for name in problems for seed in seeds_on(name, scale)]


def further(scale: Scale, rows: list[Row]) -> list[Point]:
    """The stopping rule, on the errors in full: bodies have the first seeds only, and so has what bf16 trains."""
    problems = [name for name in dict.fromkeys(row["problem"] for row in rows) if name not in BODIES]
    asked = further_seeds(rows, scale, [{"problem": name} for name in problems], FP16_MIXED)
    return [_point(group["problem"], seed, scale, COMPARED) for group, seed in asked]


def _methods(name: str, scale: Scale) -> tuple[str, ...]:
    return (*methods_on(name, scale, METHODS), *((SPECTRAL,) if name in SPECTRAL_ON else ()))


def _point(name: str, seed: int, scale: Scale, methods: tuple[str, ...]) -> Point:
    return Point(name, seed, {m: train_as(m, problem(name, scale), seed) for m in methods})


def measure(point: Point, lab: Lab) -> list[dict[str, Any]]:
    return measure_methods(point.trainings, lab)


def exhibit(rows: list[Row]) -> Exhibit:
    groups = tuple(dict.fromkeys((row["problem"], row["method"]) for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "trained by"),
            ("error as trained, L2", "error in full, L2", "as trained against full [90%]",
             "in full against full [90%]", "rounding of the answer"),
            tuple(_line(rows, *group) for group in groups),
        ),
        tuple(_panel(rows, name) for name in dict.fromkeys(name for name, _ in groups)),
        (
            "Not in the paper. 'In full' are the same weights evaluated in full precision: what is left there was lost "
            "in training, the rest in answering. A stabilizer stays, as part of the function.",
        ),
    )  # fmt: skip


def _pairs(rows: list[Row], name: str, method: str) -> tuple[Paired | None, Paired | None]:
    """As trained, and in full, both against the training in full."""
    own, full = (select(rows, problem=name, method=m) for m in (method, "full"))
    in_full = [{**row, "l2": row["l2_full"]} for row in own]
    return pair(own, full, "l2"), pair(in_full, full, "l2")


def _line(rows: list[Row], name: str, method: str) -> Line:
    found = select(rows, problem=name, method=method)
    pairs = (None, None) if method == "full" else _pairs(rows, name, method)
    ours = (
        with_deviation(found, "l2"),
        with_deviation(found, "l2_full"),
        *(None if paired is None else str(paired) for paired in pairs),
        mean(found, "rounding"),
    )
    return Line((TITLES[name], LABELS[method]), (None,) * 5, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    methods = [m for m in dict.fromkeys(row["method"] for row in select(rows, problem=name)) if m != "full"]
    bars = []
    for place, label in enumerate(("answered as trained", "answered in full")):
        known = {m: p.percent for m in methods if (p := _pairs(rows, name, m)[place]) is not None}
        bars.append(Series(label, tuple(known), tuple(known.values()), "bars"))
    return Panel(TITLES[name], "", "L2 against training in full, %", tuple(bars))


def _check_in_full(name: str, method: str, rows: list[Row]) -> Outcome | None:
    """The weights, evaluated in full, are as good as full's to 1%."""
    paired = _pairs(rows, name, method)[1]
    if paired is None:
        return None
    outcome = paired.within(f"{LABELS[method]} on {TITLES[name]}, answered in full, L2 against full")
    return behind_gate(outcome, _gate(rows, name, method))


def _check_cause(name: str, method: str, rows: list[Row]) -> Outcome | None:
    """Answering in full takes off more than half of what the training in half lost."""
    trained, in_full = _pairs(rows, name, method)
    if trained is None or in_full is None:
        return None
    pairs = zip(trained.differences, in_full.differences, strict=True)
    # Positive where more was lost in answering than in training: d_trained - 2 d_full.
    balance = Paired(tuple(a - 2 * b for a, b in pairs))
    words = f"{LABELS[method]} on {TITLES[name]}: {trained} as trained, {in_full} in full"
    return behind_gate(Outcome(balance.above("").status, words), _gate(rows, name, method))


def _gate(rows: list[Row], name: str, method: str) -> str:
    return closed(*(select(rows, problem=name, method=m) for m in ("full", method)))


PARTS = (
    *(
        Part(
            f"weights trained by {LABELS[method]} and answered in full are full's to 1% on {TITLES[name]}",
            check=partial(_check_in_full, name, method),
        )
        for name in (*PROBLEMS, LINE)
        for method in ("paper", "ours", "ours-bf16")
    ),
    *(
        Part(
            f"what bf16 loses on {TITLES[name]} is lost in answering more than in training",
            check=partial(_check_cause, name, "ours-bf16"),
        )
        for name in (*PROBLEMS, LINE)
    ),
)
EXPERIMENT = Experiment(
    name="train-in-half",
    source="Our own; the paper evaluates in the precision of the training",
    question="Is what half precision loses lost in training, or in answering?",
    claim="Trained in half and answered in full, a model is as good as one trained in full.",
    parts=PARTS,
    measures=(
        Measure("method", "one of `methods`"),
        *ASSESSED,
        *STEP_MEMORY,
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda point: tuple(point.trainings.values()),
    further=further,
    facts=lambda point, rows: method_facts(point.trainings, rows),
    scales=SCALES,
)
