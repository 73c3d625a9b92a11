"""throughput: training steps per second of the four methods on Navier-Stokes and shallow water."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from halfwave.experiments.claims import NEEDS_GPU, Part
from halfwave.experiments.experiment import PEAK_MEMORY, Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import select
from halfwave.numerics import arithmetic_of
from halfwave.recipes import TITLES, Recipe, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

LABELS = {"full": "full", "amp": "AMP", "half": "half-precision FNO", "mixed": "mixed (ours)"}
METHODS = tuple(LABELS)
FORMATS = ("fp16", "bf16")
# Mixed against full, and against AMP: the best over three GPUs ("up to 1.58X", "over 1.3X", ...).
PAPER = {"navier-stokes": (1.58, 1.3), "shallow-water": (1.33, 1.2)}
# Resolution and model at scale small of problems whose steps are too short to time there.
LARGER: Mapping[str, tuple[int, dict[str, Any]]] = {"navier-stokes": (64, {"n_modes": [32, 32], "hidden_channels": 32})}
STEPS: dict[Scale, int] = {"smoke": 3, "small": 15, "paper": 50}


@dataclass(frozen=True)
class Race:
    """The methods on one problem with one half format, taking turns."""

    problem: str
    dtype: str
    steps: int
    trainings: Mapping[str, Training]


def configurations(scale: Scale) -> list[Race]:
    return [
        Race(name, dtype, STEPS[scale], {m: Training(_recipe(name, scale), m, 0, {"dtype": dtype}) for m in METHODS})
        for name in PAPER
        for dtype in FORMATS
    ]


def _recipe(name: str, scale: Scale) -> Recipe:
    """The problem with no more data than a step needs, and at scale small large enough to time."""
    recipe = problem(name, scale)
    if scale == "small" and name in LARGER:
        resolution, arguments = LARGER[name]
        recipe = replace(recipe, arguments={**recipe.arguments, **arguments}, parameters={"resolution": resolution})
    return recipe if scale == "smoke" else replace(recipe, n_train=recipe.training["batch_size"], n_test=1)


def measure(race: Race, lab: Lab) -> list[dict[str, Any]]:
    found = lab.compare(race.trainings, race.steps)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    arithmetic = arithmetic_of(race.dtype, device).how
    columns = ("samples_per_second", "peak_memory_bytes")
    return [
        {"method": method, "arithmetic": arithmetic, **{name: found[method][name] for name in columns}}
        for method in METHODS
    ]


def exhibit(rows: list[Row]) -> Exhibit:
    races = tuple(dict.fromkeys((row["problem"], row["dtype"]) for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "half format", "products", "method"),
            ("samples per second", "against full", "against AMP", "memory, MB"),
            tuple(_line(rows, *race, method) for race in races for method in METHODS),
        ),
        tuple(_panel(rows, name, races) for name in dict.fromkeys(name for name, _ in races)),
        (
            "Products: native where the processor multiplies the format; wide where it stores it and widens each "
            "operand to fp32, which computes the same and takes longer.",
            "Steps are taken in turn and have equal batches; the paper's batches fill each GPU, so that memory saved "
            "counts as throughput too.",
        ),
    )


def _row(rows: list[Row], name: str, dtype: str, method: str) -> Row:
    [row] = select(rows, problem=name, dtype=dtype, method=method)
    return row


def _arithmetic(rows: list[Row], name: str, dtype: str) -> str:
    word: str = _row(rows, name, dtype, "mixed")["arithmetic"]
    return word


def _ratio(rows: list[Row], name: str, dtype: str, method: str, against: str) -> float:
    own, other = (_row(rows, name, dtype, m)["samples_per_second"] for m in (method, against))
    return float(own / other)


def _check_native(rows: list[Row]) -> Outcome | None:
    """Where the processor multiplies the format: the steps took turns, so that ratios of their medians can be told."""
    races = dict.fromkeys((row["problem"], row["dtype"]) for row in rows)
    native = [race for race in races if _arithmetic(rows, *race) == "native"]
    if not native:
        return None
    ratios = {race: _ratio(rows, *race, "mixed", "full") for race in native}
    clause = ", ".join(f"{ratio:.2f} times on {TITLES[name]} in {dtype}" for (name, dtype), ratio in ratios.items())
    return Outcome.of(min(ratios.values()) > 1, f"mixed against full on this processor: {clause}")


def _line(rows: list[Row], name: str, dtype: str, method: str) -> Line:
    row = _row(rows, name, dtype, method)
    against_full, against_amp = (_ratio(rows, name, dtype, method, other) for other in ("full", "amp"))
    is_papers = method == "mixed" and dtype == "fp16"
    return Line(
        (TITLES[name], dtype, row["arithmetic"], LABELS[method]),
        (None, *(PAPER[name] if is_papers else (None, None)), None),
        (row["samples_per_second"], against_full, against_amp, row["peak_memory_bytes"] / 1e6),
    )


def _panel(rows: list[Row], name: str, races: tuple[tuple[str, str], ...]) -> Panel:
    labels = tuple(LABELS[method] for method in METHODS)
    bars = tuple(
        Series(dtype, labels, tuple(_row(rows, name, dtype, m)["samples_per_second"] for m in METHODS), "bars")
        for problem_name, dtype in races
        if problem_name == name
    )
    return Panel(TITLES[name], "", "training samples per second", bars)


_FILLED = f"{NEEDS_GPU}; its batches fill each GPU, so that memory saved counts as throughput too"
PARTS = (
    Part("mixed trains up to 1.58 times as fast as full on Navier-Stokes", "1.58", 347, reason=_FILLED),
    Part("mixed trains up to 1.33 times as fast as full on shallow water", "1.33", 347, reason=_FILLED),
    Part("mixed trains over 1.3 times as fast as AMP on Navier-Stokes", "1.3", 348, reason=_FILLED),
    Part("mixed trains over 1.2 times as fast as AMP on shallow water", "1.2", 348, reason=_FILLED),
    Part("mixed is faster than full where the processor multiplies the half format", check=_check_native),
)
EXPERIMENT = Experiment(
    name="throughput",
    source="Figure 'Training throughput and runtime as a function of the method, on different GPUs'",
    question="How much faster does the method train?",
    claim="Mixed precision trains up to 1.58 times as fast on Navier-Stokes and 1.33 times on the sphere.",
    parts=PARTS,
    measures=(
        Measure("method", "full, amp, half or mixed"),
        Measure("arithmetic", "native or wide: how this machine multiplies the half format", timing=True),
        Measure("samples_per_second", "of whole training steps, methods in turn", timing=True),
        PEAK_MEMORY,
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda race: tuple(race.trainings.values()),
)
