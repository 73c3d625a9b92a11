"""unet: error and memory of FNO in mixed precision against a U-Net with AMP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import STEP_MEMORY, Experiment, Fact, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    SEEDS,
    deviation,
    mean,
    memory_of,
    select,
    train_as,
    training_facts,
    with_deviation,
)
from halfwave.experiments.pairing import pair
from halfwave.planner import paper_peak
from halfwave.recipes import SAVED, TITLES, UNET_PROBLEMS, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

METHODS = {"FNO": ("full", "paper"), "UNet": ("full", "amp")}
# The method as the planner calls it: the paper's keeps the same tensors as ours.
PLANNED = {"full": "full", "paper": "mixed", "amp": "amp"}
LABELS = {
    ("FNO", "full"): "full FNO",
    ("FNO", "paper"): "mixed FNO (paper's method)",
    ("UNet", "full"): "full U-Net",
    ("UNet", "amp"): "U-Net with AMP",
}
# L2 error in full and in the lower precision.
PAPER = {
    ("navier-stokes", "FNO"): (0.003, 0.004),
    ("navier-stokes", "UNet"): (0.111, 0.111),
    ("darcy", "FNO"): (0.01, 0.007),
    ("darcy", "UNet"): (0.024, 0.022),
}


@dataclass(frozen=True)
class Trial:
    """One training of one of the two models."""

    problem: str
    model: str
    method: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[Trial]:
    return [
        Trial(name, model, method, seed, train_as(method, problem(_work(name, model), scale), seed))
        for name in UNET_PROBLEMS
        for model, methods in METHODS.items()
        for method in methods
        for seed in SEEDS[scale]
    ]


def _work(name: str, model: str) -> str:
    """The problem of this name as it is, or with a U-Net."""
    return name if model == "FNO" else f"{name}-unet"


def measure(trial: Trial, lab: Lab) -> list[dict[str, Any]]:
    planned = paper_peak(_work(trial.problem, trial.model), PLANNED[trial.method])
    counted = memory_of(lab.train(trial.training))
    return [{**lab.assess(trial.training), **counted, "planned_bytes": planned}]


def exhibit(rows: list[Row]) -> Exhibit:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    lines = tuple(_line(rows, name, model, place) for name in problems for model in METHODS for place in range(2))
    return Exhibit(
        Comparison(
            ("dataset", "model"),
            ("error, L2", "memory reduction, planned, %", "memory reduction, measured, %", "memory, measured, MB"),
            lines,
        ),
        (_error_panel(rows, problems), _memory_panel(rows, problems)),
        (
            "Memory is the largest sum of live tensors in a training step: planned at the paper's size for a GPU, and "
            "measured at this scale, where weights and optimizer state, which stay in fp32, are a large part of it.",
            "The width of the paper's U-Net is not stated: 64 channels are planned.",
        ),
    )


def _found(rows: list[Row], name: str, model: str, method: str) -> list[Row]:
    return select(rows, problem=name, model=model, method=method)


def _reduction(rows: list[Row], name: str, model: str, column: str = "planned_bytes") -> float | None:
    """Percent of the memory in full that the model's lower precision saves; None where a training diverged."""
    full, low = (_found(rows, name, model, method)[0][column] for method in METHODS[model])
    return None if full is None or low is None else float(100 * (1 - low / full))


def _check_error(name: str, rows: list[Row]) -> Outcome | None:
    """FNO in mixed precision against the U-Net with AMP, seed by seed: they have the same data."""
    paired = pair(_found(rows, name, "FNO", "paper"), _found(rows, name, "UNet", "amp"), "l2")
    if paired is None:
        return None
    outcome = paired.below(f"on {TITLES[name]} the error of mixed FNO against that of the U-Net with AMP")
    return behind_gate(outcome, not_learnt(_found(rows, name, "FNO", "full")))


def _check_memory(name: str, column: str, rows: list[Row]) -> Outcome | None:
    if not select(rows, problem=name):
        return None
    fno, unet = (_reduction(rows, name, model, column) for model in METHODS)
    if fno is None or unet is None:
        return None
    kind = "as planned at the paper's size" if column == "planned_bytes" else "as counted at this scale"
    return Outcome.of(
        fno > unet, f"{kind} FNO's memory falls by {fno:.1f}%, the U-Net's by {unet:.1f}% ({TITLES[name]})"
    )


def _facts(trial: Trial, rows: list[Row]) -> list[Fact]:
    own = [fact for row in rows for fact in training_facts(trial.training, row)]
    plan = f"planned bytes at the paper's size: {_work(trial.problem, trial.model)}, {PLANNED[trial.method]}"
    return [*own, *((plan, row["planned_bytes"]) for row in rows)]


def _line(rows: list[Row], name: str, model: str, place: int) -> Line:
    method = METHODS[model][place]
    found = _found(rows, name, model, method)
    planned = None if place == 0 else _reduction(rows, name, model)
    measured = None if place == 0 else _reduction(rows, name, model, "peak_memory_bytes")
    return Line(
        (TITLES[name], LABELS[model, method]),
        (PAPER[name, model][place], None if place == 0 else SAVED[name, model], None, None),
        (with_deviation(found, "l2"), planned, measured, (found[0]["peak_memory_bytes"] or 0) / 1e6),
    )


def _error_panel(rows: list[Row], problems: tuple[str, ...]) -> Panel:
    series = []
    for (model, method), label in LABELS.items():
        found = [(TITLES[name], _found(rows, name, model, method)) for name in problems]
        known = [(title, value, deviation(r, "l2")) for title, r in found if (value := mean(r, "l2")) is not None]
        x, y, bars = zip(*known, strict=True) if known else ((), (), ())
        series.append(Series(label, x, y, "bars", error=bars))
    return Panel("error", "", "test error, L2", tuple(series), ylog=True)


def _memory_panel(rows: list[Row], problems: tuple[str, ...]) -> Panel:
    titles = tuple(TITLES[name] for name in problems)
    bars = tuple(
        Series(label, titles, tuple(_reduction(rows, name, model) or 0.0 for name in problems), "bars")
        for label, model in (("FNO, full to mixed", "FNO"), ("U-Net, full to AMP", "UNet"))
    )
    return Panel("memory reduction, planned at the paper's size", "", "%", bars)


PARTS = (
    Part(
        "on Navier-Stokes mixed FNO has a lower L2 error than the U-Net with AMP",
        "0.004 against 0.111",
        432,
        partial(_check_error, "navier-stokes"),
    ),
    Part(
        "on Darcy flow mixed FNO has a lower L2 error than the U-Net with AMP",
        "0.007 against 0.022",
        432,
        partial(_check_error, "darcy"),
    ),
    *(
        Part(
            f"on {TITLES[name]} mixed precision saves more of FNO's memory than AMP of the U-Net's{where}",
            figures,
            441,
            partial(_check_memory, name, column),
        )
        for column, where in (("planned_bytes", ""), ("peak_memory_bytes", ", as counted at this scale"))
        for name, figures in (("navier-stokes", "50.4% against 20.9%"), ("darcy", "25.8% against 24.9%"))
    ),
)
EXPERIMENT = Experiment(
    name="unet",
    source="Table 'Comparison of L2 error and memory reduction with U-Nets'",
    question="How do FNO in mixed precision and a U-Net with AMP compare, in error and in memory?",
    claim="FNO has the lower error, and the method saves more of its memory than AMP saves of a U-Net's.",
    parts=PARTS,
    measures=(
        *ASSESSED,
        *STEP_MEMORY,
        Measure("planned_bytes", "the largest sum of live tensors at the paper's size on a GPU, planned"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda trial: (trial.training,),
    facts=_facts,
)
