"""memory: full, AMP, half-precision FNO and both, on five problems; measured here, and planned at the paper's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, select
from halfwave.planner import paper_peak
from halfwave.recipes import METHOD_MB, PROBLEMS, SAVED, TITLES, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

METHODS = ("full", "amp", "half", "mixed")
# Percent saved, where other tables and the text print them.
PAPER_SAVED: dict[tuple[str, str], float] = {
    ("navier-stokes", "mixed"): SAVED["navier-stokes", "FNO"],
    ("darcy", "half"): 14.9,
    ("darcy", "mixed"): SAVED["darcy", "FNO"],
}
PAPER_MOST = 50.0  # percent, "up to"
# The neighbours of 100,000 points take half a minute to find; smoke plans what takes a second.
UNPLANNED: dict[Scale, tuple[str, ...]] = {"smoke": ("darcy", "car", "ahmed"), "small": (), "paper": ()}


@dataclass(frozen=True)
class Case:
    """One problem under the four methods."""

    problem: str
    is_planned: bool
    trainings: Mapping[str, Training]


def configurations(scale: Scale) -> list[Case]:
    return [
        Case(name, name not in UNPLANNED[scale], {m: Training(problem(name, scale), m) for m in METHODS})
        for name in PROBLEMS
    ]


def measure(case: Case, lab: Lab) -> list[dict[str, Any]]:
    """A training step of each, counted; and one at the paper's size, run without numbers and counted."""
    counted = lab.compare(case.trainings, steps=1)
    columns = ("peak_memory_bytes", "activation_bytes")
    return [
        {
            "method": method,
            **{name: counted[method][name] for name in columns},
            "planned_bytes": paper_peak(case.problem, method) if case.is_planned else None,
        }
        for method in METHODS
    ]


def summarise(rows: list[Row]) -> Summary:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    planned = tuple(name for name in problems if _row(rows, name, "full")["planned_bytes"] is not None)
    sizes = {"planned_bytes": planned, "peak_memory_bytes": problems}
    return Summary(
        Comparison(
            ("dataset", "method"),
            (
                "planned at the paper's size, MB",
                "planned reduction, %",
                "measured at this scale, MB",
                "measured reduction, %",
                "reduction of activations, %",
            ),
            tuple(_line(rows, name, method) for name in problems for method in METHODS),
        ),
        (
            _panel(rows, planned, "planned_bytes", "planned at the paper's size"),
            _panel(rows, problems, "peak_memory_bytes", "measured at this scale"),
        ),
        Verdict(
            (
                _check_most(rows, planned),
                _check_sum(rows, planned),
                *(_check_leanest(rows, names, column) for column, names in sizes.items()),
            )
        ),
        (
            "Planned: the real training step at the paper's size for a GPU in fp16, run on tensors without values and "
            "counted. The paper's megabytes are a GPU's, with the context and cached blocks; ours are live tensors.",
            "A block of this library keeps its input, the convolution's result and the truncated spectrum, and makes "
            "the rest again in the backward pass, so that full precision too takes less than the paper's.",
            "At this scale weights and optimizer state, which stay in fp32, are a large part of the whole, and where "
            "the processor does not multiply fp16 the operands of a product are widened while it runs.",
        ),
    )


def _row(rows: list[Row], name: str, method: str) -> Row:
    [row] = select(rows, problem=name, method=method)
    return row


def _saved(rows: list[Row], name: str, method: str, column: str) -> float | None:
    """Percent of full's bytes."""
    own, full = (_row(rows, name, m)[column] for m in (method, "full"))
    return None if own is None else 100 * (1 - own / full)


def _planned(rows: list[Row], name: str, method: str) -> float:
    saved = _saved(rows, name, method, "planned_bytes")
    assert saved is not None, f"{name} was not planned"
    return saved


def _check_most(rows: list[Row], planned: tuple[str, ...]) -> Check:
    """Up to 50%: the largest reduction is of that size."""
    saved = {name: _planned(rows, name, "mixed") for name in planned}
    best = max(saved, key=lambda name: saved[name])
    clause = f"as planned mixed takes up to {saved[best]:.0f}% less memory than full ({TITLES[best]})"
    return Check(saved[best] >= PAPER_MOST - 5, clause)


def _check_sum(rows: list[Row], planned: tuple[str, ...]) -> Check:
    """More than the sum of the two, or as much to a percentage point."""
    more = {
        name: _planned(rows, name, "mixed") - _planned(rows, name, "amp") - _planned(rows, name, "half")
        for name in planned
    }
    least, most = min(more.values()), max(more.values())
    clause = f"that is {least:+.1f} to {most:+.1f} percentage points against the sum of AMP and half-precision FNO"
    return Check(least > -1, clause)


def _check_leanest(rows: list[Row], names: tuple[str, ...], column: str) -> Check:
    """On every problem mixed has the least of the four."""
    leanest = [n for n in names if _row(rows, n, "mixed")[column] <= min(_row(rows, n, m)[column] for m in METHODS)]
    kind = "as planned" if column == "planned_bytes" else "as measured"
    clause = f"{kind} mixed is the leanest of the four on {len(leanest)} of {len(names)} problems"
    return Check(len(leanest) == len(names), clause)


def _line(rows: list[Row], name: str, method: str) -> Line:
    row = _row(rows, name, method)
    planned = row["planned_bytes"]
    saved = [
        None if method == "full" else _saved(rows, name, method, column)
        for column in ("planned_bytes", "peak_memory_bytes", "activation_bytes")
    ]
    ours = (
        None if planned is None else planned / 1e6,
        saved[0],
        row["peak_memory_bytes"] / 1e6,
        saved[1],
        saved[2],
    )
    paper = (METHOD_MB.get((name, method)), PAPER_SAVED.get((name, method)), None, None, None)
    return Line((TITLES[name], LABELS[method]), paper, ours)


def _panel(rows: list[Row], names: tuple[str, ...], column: str, title: str) -> Panel:
    """In percent of full: the problems differ much in size."""
    titles = tuple(TITLES[name] for name in names)

    def share(name: str, method: str) -> float:
        own, full = (_row(rows, name, m)[column] for m in (method, "full"))
        return float(100 * own / full)

    bars = tuple(
        Series(LABELS[method], titles, tuple(share(name, method) for name in names), "bars") for method in METHODS
    )
    return Panel(title, "", "memory, % of full", bars)


EXPERIMENT = Experiment(
    name="memory",
    source="Figure 'GPU memory usage reduction across different variants of neural operators on diverse tasks'",
    question="How much memory does each method save, on each problem?",
    claim="Mixed precision takes up to 50% less memory than full, more than AMP and half-precision FNO save together.",
    measures=(
        Measure("method", "full, amp, half or mixed"),
        Measure("peak_memory_bytes", "largest sum of live tensors in a training step at this scale"),
        Measure("activation_bytes", "without parameters, gradients, optimizer state and batch"),
        Measure("planned_bytes", "the same at the paper's size on a GPU, planned"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    # Steps alone: nothing is trained, so that there is nothing to plan.
)
