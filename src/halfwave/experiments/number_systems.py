"""number-systems: bf16 and simulated fp8 in place of fp16, against full precision."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.numerics import get_format
from halfwave.recipes import TITLES, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict, plus_minus

# Curves only: bf16 has a significantly higher error than full and fp16, fp8 diverges.
METHODS: Mapping[str, tuple[str, str]] = {
    "full, fp32": ("full", "fp16"),
    "mixed, fp16": ("mixed", "fp16"),
    "AMP, bf16": ("amp", "bf16"),
    "mixed, bf16": ("mixed", "bf16"),
    "mixed, fp8 e4m3": ("mixed", "fp8_e4m3"),
    "mixed, fp8 e5m2": ("mixed", "fp8_e5m2"),
}
PROBLEMS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("darcy",),
    "small": ("navier-stokes", "darcy"),
    "paper": ("navier-stokes", "darcy"),
}
SEEDS: Mapping[Scale, int] = {"smoke": 1, "small": 1, "paper": 3}


@dataclass(frozen=True)
class System:
    """A training in one number system."""

    problem: str
    method: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[System]:
    return [
        System(name, method, seed, Training(problem(name, scale), precision, seed, _changes(dtype)))
        for name in PROBLEMS[scale]
        for method, (precision, dtype) in METHODS.items()
        for seed in range(SEEDS[scale])
    ]


def _changes(dtype: str) -> dict[str, str]:
    """None for fp16, so that its trainings are those of other experiments."""
    return {} if dtype == "fp16" else {"dtype": dtype}


def measure(system: System, lab: Lab) -> list[dict[str, Any]]:
    """One row for each epoch, or a single one without figures where nothing was finite."""
    trained = lab.train(system.training)
    precision, dtype = METHODS[system.method]
    known = {
        "unit_roundoff": get_format("fp32" if precision == "full" else dtype).unit_roundoff,
        "stopped": trained.reason or "",
    }
    epochs = trained.epochs or [{"epoch": 0, "train_loss": None, "test_l2": None}]
    return [
        {"epoch": row["epoch"], "train_loss": row["train_loss"], "test_l2": row["test_l2"], **known} for row in epochs
    ]


def summarise(rows: list[Row]) -> Summary:
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    found = {(p, m): [r for r in rows if (r["problem"], r["method"]) == (p, m)] for p in problems for m in METHODS}
    return Summary(
        Comparison(
            ("dataset", "method"),
            ("unit roundoff", "test error, L2", "times full's", "diverges"),
            tuple(_line(found, *key) for key in found),
        ),
        tuple(_panel(found, name) for name in problems),
        Verdict(tuple(check for name in problems for check in _checks(found, name))),
        (
            "fp8 is simulated: operands and results of every product are rounded to it. Its overflow becomes inf or "
            "NaN here, where the paper clips to the largest number.",
            "The paper shows curves without numbers, fp8 with GINO.",
        ),
    )


def _line(found: Mapping[tuple[str, str], list[Row]], problem: str, method: str) -> Line:
    rows = found[problem, method]
    final, full = _final(rows), _final(found[problem, "full, fp32"])
    ratio = statistics.fmean(final) / statistics.fmean(full) if final and full else None
    diverges = "yes" if any(row["stopped"] for row in rows) else "no"
    # What the paper's figure shows of fp8.
    paper = (None, None, None, "yes" if method == "mixed, fp8 e5m2" else None)
    error = plus_minus(final) if final else None
    return Line((TITLES[problem], method), paper, (rows[0]["unit_roundoff"], error, ratio, diverges))


def _final(rows: list[Row]) -> list[float]:
    """Last test errors of the seeds that came to the end."""
    last = max(row["epoch"] for row in rows)
    return [
        row["test_l2"] for row in rows if row["epoch"] == last and not row["stopped"] and row["test_l2"] is not None
    ]


def _panel(found: Mapping[tuple[str, str], list[Row]], problem: str) -> Panel:
    series = []
    for (name, method), rows in found.items():
        epochs = sorted({row["epoch"] for row in rows if row["test_l2"] is not None})
        if name == problem and epochs:
            means = [statistics.fmean(r["test_l2"] for r in rows if r["epoch"] == epoch) for epoch in epochs]
            series.append(Series(method, epochs, means))
    return Panel(TITLES[problem], "epoch", "test error, relative L2", tuple(series), ylog=True)


def _checks(found: Mapping[tuple[str, str], list[Row]], problem: str) -> tuple[Check, ...]:
    finals = {method: _final(found[problem, method]) for method in METHODS}
    full = statistics.fmean(finals["full, fp32"])
    changes = {method: 100 * (statistics.fmean(values) / full - 1) for method, values in finals.items() if values}

    def clause(*methods: str) -> str:
        parts = [f"{m} {changes[m]:+.1f}%" if m in changes else f"{m} diverges" for m in methods]
        return f"{TITLES[problem]}, error against full: {'; '.join(parts)}"

    fp16 = changes.get("mixed, fp16", float("inf"))
    bf16 = max(changes.get(method, float("inf")) for method in ("AMP, bf16", "mixed, bf16"))
    fp8 = min(changes.get(f"mixed, fp8 {kind}", float("inf")) for kind in ("e4m3", "e5m2"))
    return (
        Check(abs(fp16) < 2, clause("mixed, fp16")),
        Check(bf16 > max(2, fp16), clause("AMP, bf16", "mixed, bf16")),
        Check(fp8 > max(10, bf16), clause("mixed, fp8 e4m3", "mixed, fp8 e5m2")),
    )


EXPERIMENT = Experiment(
    name="number-systems",
    source="Figure 'BF16 and FP8', appendix 'Other Numeric Systems'",
    question="Can bf16 or fp8 take the place of fp16?",
    claim="bf16 has a significantly higher error than full precision and fp16; fp8 diverges for want of digits.",
    measures=(
        Measure("epoch", "number of the epoch"),
        Measure("train_loss", "mean of the epoch"),
        Measure("test_l2", "relative L2 on the test split"),
        Measure("unit_roundoff", "largest relative error of rounding to the format"),
        Measure("stopped", "why the trainer stopped; empty where it did not"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda system: (system.training,),
)
