"""unet: error and memory of FNO in mixed precision against a U-Net with AMP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import SEEDS, deviation, errors_of, mean, select, with_deviation
from halfwave.planner import paper_peak
from halfwave.recipes import SAVED, TITLES, UNET_PROBLEMS, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

METHODS = {"FNO": ("full", "mixed"), "UNet": ("full", "amp")}
LABELS = {
    ("FNO", "full"): "full FNO",
    ("FNO", "mixed"): "mixed FNO (the method)",
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
# FNO's trainings are those of 'overview'; a U-Net's error is so far from theirs that one seed tells it.
UNET_SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0,), "paper": (0, 1, 2)}


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
        Trial(name, model, method, seed, Training(problem(_work(name, model), scale), method, seed))
        for name in UNET_PROBLEMS
        for model, methods in METHODS.items()
        for method in methods
        for seed in (SEEDS if model == "FNO" else UNET_SEEDS)[scale]
    ]


def _work(name: str, model: str) -> str:
    """The problem of this name as it is, or with a U-Net."""
    return name if model == "FNO" else f"{name}-unet"


def measure(trial: Trial, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(trial.training)
    memory = trained.epochs[0] if trained.epochs else {"peak_memory_bytes": None, "activation_bytes": None}
    columns = ("peak_memory_bytes", "activation_bytes")
    counted = {name: memory[name] for name in columns}
    planned = paper_peak(_work(trial.problem, trial.model), trial.method)
    return [{**errors_of(trained), **counted, "planned_bytes": planned}]


def summarise(rows: list[Row]) -> Summary:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    lines = tuple(_line(rows, name, model, place) for name in problems for model in METHODS for place in range(2))
    return Summary(
        Comparison(
            ("dataset", "model"),
            ("error, L2", "memory reduction, planned, %", "memory reduction, measured, %", "memory, measured, MB"),
            lines,
        ),
        (_error_panel(rows, problems), _memory_panel(rows, problems)),
        Verdict((*(_better(rows, name) for name in problems), *(_leaner(rows, name) for name in problems))),
        (
            "Memory is the largest sum of live tensors in a training step: planned at the paper's size for a GPU, and "
            "measured at this scale, where weights and optimizer state, which stay in fp32, are a large part of it.",
            "The width of the paper's U-Net is not stated: 64 channels are planned.",
        ),
    )


def _found(rows: list[Row], name: str, model: str, method: str) -> list[Row]:
    return select(rows, problem=name, model=model, method=method)


def _reduction(rows: list[Row], name: str, model: str, column: str = "planned_bytes") -> float:
    """Percent of the memory in full that the model's lower precision saves."""
    full, low = (_found(rows, name, model, method)[0][column] for method in METHODS[model])
    return 100 * (1 - low / full)


def _better(rows: list[Row], name: str) -> Check:
    fno, unet = (mean(_found(rows, name, model, methods[1]), "l2") for model, methods in METHODS.items())
    if fno is None or unet is None:
        return Check(False, f"on {TITLES[name]} a training diverged")
    clause = f"on {TITLES[name]} the error of mixed FNO is {fno:.3g} and that of the U-Net with AMP {unet:.3g}"
    return Check(fno < unet, clause)


def _leaner(rows: list[Row], name: str) -> Check:
    fno, unet = (_reduction(rows, name, model) for model in METHODS)
    return Check(fno > unet, f"as planned its memory falls by {fno:.0f}%, the U-Net's by {unet:.0f}% ({TITLES[name]})")


def _line(rows: list[Row], name: str, model: str, place: int) -> Line:
    method = METHODS[model][place]
    found = _found(rows, name, model, method)
    planned = None if place == 0 else _reduction(rows, name, model)
    measured = None if place == 0 else _reduction(rows, name, model, "peak_memory_bytes")
    return Line(
        (TITLES[name], LABELS[model, method]),
        (PAPER[name, model][place], None if place == 0 else SAVED[name, model], None, None),
        (with_deviation(found, "l2"), planned, measured, found[0]["peak_memory_bytes"] / 1e6),
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
        Series(label, titles, tuple(_reduction(rows, name, model) for name in problems), "bars")
        for label, model in (("FNO, full to mixed", "FNO"), ("U-Net, full to AMP", "UNet"))
    )
    return Panel("memory reduction, planned at the paper's size", "", "%", bars)


EXPERIMENT = Experiment(
    name="unet",
    source="Table 'Comparison of L2 error and memory reduction with U-Nets'",
    question="How do FNO in mixed precision and a U-Net with AMP compare, in error and in memory?",
    claim="FNO has the lower error, and the method saves more of its memory than AMP saves of a U-Net's.",
    measures=(
        Measure("l2", "relative L2 error on the test split"),
        Measure("h1", "relative H1 error on the test split"),
        Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
        Measure("activation_bytes", "without parameters, gradients, optimizer state and batch"),
        Measure("planned_bytes", "the largest sum of live tensors at the paper's size on a GPU, planned"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda trial: (trial.training,),
)
