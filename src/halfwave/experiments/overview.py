"""overview: error, memory and throughput of full precision, AMP, the paper's method and ours; the ball figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import NEEDS_GPU, Part
from halfwave.experiments.experiment import SCALES, STEP_MEMORY, Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    BODIES,
    COMPARED,
    FP16_MIXED,
    LABELS,
    TRAINED,
    against_full,
    further_seeds,
    judge_against_full,
    mean,
    measure_methods,
    method_facts,
    methods_on,
    saved,
    seeds_on,
    select,
    train_as,
    with_deviation,
)
from halfwave.recipes import LINE, PROBLEMS, TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

# The figure has no numbers; its caption: memory falls by up to so many percent, the L2 error rises by at most so many.
PAPER_REDUCTION, PAPER_EXCESS = 50.0, 0.28
# Memory of mixed against full in percent where the paper prints it (the comparison with U-Nets).
PAPER = {"navier-stokes": 50.4, "darcy": 25.8}
STEPS: dict[Scale, int] = {"smoke": 2, "small": 9, "medium": 9, "paper": 50}


@dataclass(frozen=True)
class Point:
    """One problem and seed, trained by each method."""

    problem: str
    seed: int
    trainings: Mapping[str, Training]
    steps: int


def configurations(scale: Scale) -> list[Point]:
    problems = (*PROBLEMS, LINE) if scale == "medium" else PROBLEMS
    return [_point(name, seed, scale, TRAINED) for name in problems for seed in seeds_on(name, scale)]


def further(scale: Scale, rows: list[Row]) -> list[Point]:
    """The stopping rule of `methods`, problem by problem, for the methods that are compared."""
    problems = [name for name in dict.fromkeys(row["problem"] for row in rows) if name not in BODIES]
    asked = further_seeds(rows, scale, [{"problem": name} for name in problems], FP16_MIXED)
    return [_point(group["problem"], seed, scale, COMPARED) for group, seed in asked]


def _point(name: str, seed: int, scale: Scale, methods: Sequence[str]) -> Point:
    chosen = methods_on(name, scale, methods)
    return Point(name, seed, {m: train_as(m, problem(name, scale), seed) for m in chosen}, STEPS[scale])


def measure(point: Point, lab: Lab) -> list[dict[str, Any]]:
    """Trained one after the other; throughput from steps of all in turn."""
    rows = measure_methods(point.trainings, lab)
    steps = lab.compare(point.trainings, point.steps)
    return [{**row, "samples_per_second": steps[row["method"]]["samples_per_second"]} for row in rows]


def exhibit(rows: list[Row]) -> Exhibit:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "method"),
            (
                "error, L2",
                "L2 against full [90%]",
                "L2 in full",
                "rounding of the answer",
                "mean predictor, L2",
                "linear predictor, L2",
                "memory, MB",
                "memory less than full, %",
                "samples per second",
            ),
            tuple(_line(rows, name, m) for name in problems for m in TRAINED if select(rows, problem=name, method=m)),
        ),
        tuple(_panel(rows, name) for name in problems),
        (
            "The area of a ball is proportional to the throughput. The paper's figure has no numbers: its caption says "
            f"that memory falls by up to {PAPER_REDUCTION:.0f}% and the error rises by at most {PAPER_EXCESS}%.",
            "The seed decides data and first weights; differences are of pairs with the same seed. 'L2 in full' is the "
            "error of the same weights evaluated in full precision.",
            "Memory is the largest sum of live tensors in a training step, throughput that of whole steps taken in "
            "turn. Where the processor does not multiply fp16 it widens each operand to fp32 first, which costs time: "
            "see 'throughput'.",
        ),
    )


def _line(rows: list[Row], name: str, method: str) -> Line:
    found = select(rows, problem=name, method=method)
    is_full = method == "full"
    paired = None if is_full else against_full(rows, method, "l2", problem=name)
    memory = found[0]["peak_memory_bytes"]
    ours = (
        with_deviation(found, "l2"),
        None if paired is None else str(paired),
        None if is_full else mean(found, "l2_full"),
        None if is_full else mean(found, "rounding"),
        mean(found, "mean_l2") if is_full else None,
        mean(found, "linear_l2") if is_full else None,
        None if memory is None else memory / 1e6,
        None if is_full else saved(rows, method, "peak_memory_bytes", problem=name),
        _rate(rows, name, method),
    )
    reduction = PAPER.get(name) if method == "paper" else None
    return Line((TITLES[name], LABELS[method]), (*(None,) * 7, reduction, None), ours)


def _rate(rows: list[Row], name: str, method: str) -> float | None:
    """Samples per second, mean over the seeds that all methods have: other seeds may be of another machine."""
    of_problem = select(rows, problem=name)
    seeds = [{row["seed"] for row in of_problem if row["method"] == m} for m in {row["method"] for row in of_problem}]
    shared = set.intersection(*seeds)
    return mean([row for row in of_problem if row["method"] == method and row["seed"] in shared], "samples_per_second")


def _panel(rows: list[Row], name: str) -> Panel:
    """Error over memory, a ball for each method; one that diverged has no place."""
    balls = []
    for method in TRAINED:
        found = select(rows, problem=name, method=method)
        error, rate = (mean(found, "l2"), _rate(rows, name, method)) if found else (None, None)
        if error is not None and rate is not None:
            memory = found[0]["peak_memory_bytes"] / 1e6
            balls.append(
                Series(f"{method}: {rate:.3g} samples/s", (memory,), (error,), "balls", size=(rate,), name=method)
            )
    return Panel(TITLES[name], "memory of a training step, MB", "test error, L2", tuple(balls), yzero=True)


def _check_memory(rows: list[Row], method: str) -> Outcome | None:
    """The largest reduction is the paper's, to its last digit."""
    reductions = {
        name: value
        for name in dict.fromkeys(row["problem"] for row in rows)
        if (value := saved(rows, method, "peak_memory_bytes", problem=name)) is not None
    }
    if not reductions:
        return None
    most, least = (choose(reductions, key=lambda n: reductions[n]) for choose in (max, min))
    clause = (
        f"{LABELS[method]}: {reductions[least]:.0f}% ({TITLES[least]}) to {reductions[most]:.0f}% ({TITLES[most]}) "
        "less than full, as counted at this scale"
    )
    return Outcome.of(reductions[most] >= PAPER_REDUCTION - 0.5, clause)


def _check_error(name: str, method: str, rows: list[Row]) -> Outcome | None:
    return judge_against_full(rows, method, "l2", lambda paired, what: paired.at_most(what, PAPER_EXCESS), problem=name)


PARTS = (
    *(
        Part(
            f"the L2 error of {whose} method rises by at most {PAPER_EXCESS}% on {TITLES[name]}",
            f"{PAPER_EXCESS}%" if name in PROBLEMS else "",
            145 if name in PROBLEMS else None,
            partial(_check_error, name, method),
        )
        for method, whose in (("paper", "the paper's"), ("ours", "our"))
        for name in (*PROBLEMS, LINE)
    ),
    Part(
        "memory falls by up to 50% with the paper's method",
        "50%",
        145,
        lambda rows: _check_memory(rows, "paper"),
    ),
    Part("memory falls by up to 50% with ours", "50%", 145, lambda rows: _check_memory(rows, "ours")),
    Part("training throughput rises by up to 58%", "58%", 163, reason=NEEDS_GPU),
    Part("on Shape-Net Car and Ahmed body the throughput is the same", "identical", 1214, reason=NEEDS_GPU),
)
EXPERIMENT = Experiment(
    name="overview",
    source="Figure 1, the ball figure",
    question="What do full precision, AMP, the paper's method and ours cost, and how well do they learn?",
    claim="Memory falls by up to 50% and throughput rises, while the L2 error rises by at most 0.28%.",
    parts=PARTS,
    measures=(
        Measure("method", "one of `methods`"),
        *ASSESSED,
        *STEP_MEMORY,
        Measure("samples_per_second", "of whole training steps, methods in turn", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda point: tuple(point.trainings.values()),
    further=further,
    facts=lambda point, rows: method_facts(point.trainings, rows),
    scales=SCALES,
)
