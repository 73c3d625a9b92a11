"""overview: error, memory and throughput of full precision, AMP and the method on five problems; the ball figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    LABELS,
    SEEDS,
    check_close,
    errors_of,
    excess,
    mean,
    select,
    with_deviation,
)
from halfwave.recipes import PROBLEMS, TITLES, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

METHODS = ("full", "amp", "mixed")
# The figure has no numbers; its caption: memory falls by up to so many percent, the L2 error rises by at most so many.
PAPER_REDUCTION, PAPER_EXCESS = 50.0, 0.28
# Memory of mixed against full in percent where the paper prints it (the comparison with U-Nets).
PAPER = {"navier-stokes": 50.4, "darcy": 25.8}
STEPS: dict[Scale, int] = {"smoke": 2, "small": 9, "paper": 50}


@dataclass(frozen=True)
class Point:
    """One problem and seed, trained by each method."""

    problem: str
    seed: int
    trainings: Mapping[str, Training]
    steps: int

    def __post_init__(self) -> None:
        assert set(self.trainings) == set(METHODS)


def configurations(scale: Scale) -> list[Point]:
    return [
        Point(name, seed, {method: Training(problem(name, scale), method, seed) for method in METHODS}, STEPS[scale])
        for name in PROBLEMS
        for seed in SEEDS[scale]
    ]


def measure(point: Point, lab: Lab) -> list[dict[str, Any]]:
    """Trained one after the other; memory and throughput from steps of all three in turn."""
    steps = lab.compare(point.trainings, point.steps)
    return [
        {"method": method, **errors_of(lab.train(training)), **steps[method]}
        for method, training in point.trainings.items()
    ]


def summarise(rows: list[Row]) -> Summary:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    lines = tuple(_line(rows, name, method) for name in problems for method in METHODS)
    errors = {f"on {TITLES[n]}": (_error(rows, n, "mixed"), _error(rows, n, "full")) for n in problems}
    return Summary(
        Comparison(
            ("dataset", "method"),
            ("error, L2", "error against full, %", "memory, MB", "memory less than full, %", "samples per second"),
            lines,
        ),
        tuple(_panel(rows, name) for name in problems),
        Verdict((*check_close("mixed's L2 error", errors), _check_memory(rows, problems))),
        (
            "The area of a ball is proportional to the throughput. The paper's figure has no numbers: its caption says "
            f"that memory falls by up to {PAPER_REDUCTION:.0f}% and the error rises by at most {PAPER_EXCESS}%.",
            "Memory is the largest sum of live tensors in a training step, throughput that of whole steps taken in "
            "turn. Where the processor does not multiply fp16 it widens each operand to fp32 first, which costs time: "
            "see 'throughput'.",
        ),
    )


def _error(rows: list[Row], name: str, method: str) -> float | None:
    return mean(select(rows, problem=name, method=method), "l2")


def _reduction(rows: list[Row], name: str, method: str) -> float:
    """Percent of full's memory that a method saves; the same for all seeds."""
    full, other = (select(rows, problem=name, method=m)[0]["peak_memory_bytes"] for m in ("full", method))
    return 100 * (1 - other / full)


def _line(rows: list[Row], name: str, method: str) -> Line:
    found = select(rows, problem=name, method=method)
    against = None if method == "full" else excess(mean(found, "l2"), _error(rows, name, "full"))
    saved = None if method == "full" else _reduction(rows, name, method)
    ours = (
        with_deviation(found, "l2"),
        against,
        found[0]["peak_memory_bytes"] / 1e6,
        saved,
        mean(found, "samples_per_second"),
    )
    paper = (None, None, None, PAPER.get(name) if method == "mixed" else None, None)
    return Line((TITLES[name], LABELS[method]), paper, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    """Error over memory, a ball for each method; one that diverged has no place."""
    balls = []
    for method in METHODS:
        found = select(rows, problem=name, method=method)
        error, rate = mean(found, "l2"), mean(found, "samples_per_second")
        if error is not None and rate is not None:
            label = f"{LABELS[method]}: {rate:.3g} samples/s"
            memory = found[0]["peak_memory_bytes"] / 1e6
            balls.append(Series(label, (memory,), (error,), "balls", size=(rate,)))
    return Panel(TITLES[name], "memory of a training step, MB", "test error, L2", tuple(balls), yzero=True)


def _check_memory(rows: list[Row], problems: tuple[str, ...]) -> Check:
    saved = {name: _reduction(rows, name, "mixed") for name in problems}
    most, least = max(saved, key=lambda n: saved[n]), min(saved, key=lambda n: saved[n])
    return Check(
        saved[least] > 0,
        f"its memory is {saved[least]:.0f}% ({TITLES[least]}) to {saved[most]:.0f}% ({TITLES[most]}) below full's",
    )


EXPERIMENT = Experiment(
    name="overview",
    source="Figure 1, the ball figure",
    question="What do full precision, AMP and the method cost on each problem, and how well do they learn it?",
    claim="Memory falls by up to 50% and throughput rises, while the L2 error rises by at most 0.28%.",
    measures=(
        Measure("method", "full, amp or mixed"),
        Measure("l2", "relative L2 error on the test split"),
        Measure("h1", "relative H1 error; none on point clouds"),
        Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
        Measure("activation_bytes", "without parameters, gradients, optimizer state and batch"),
        Measure("samples_per_second", "of whole training steps, methods in turn", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda point: tuple(point.trainings.values()),
)
