"""tf32: the paper's comparison with TensorFloat-32, measured where there is hardware for it and planned elsewhere.

Elsewhere nothing is said about the claim: the times are planned from operations, bytes and an A100's published rates,
and only the error is real, that of tf32 emulated as rounding inside fp32.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.plan import count_step
from halfwave.models import FNO, set_precision
from halfwave.precision import Policy
from halfwave.recipes import HALF, TITLES, problem
from halfwave.report import UNTESTABLE, Comparison, Exhibit, Line, Outcome, Panel, Series

# Seconds per epoch on an A100.
PAPER = {
    ("navier-stokes", "full with tf32"): 57.44,
    ("navier-stokes", "mixed"): 53.72,
    ("darcy", "full with tf32"): 14.12,
    ("darcy", "mixed"): 13.52,
}
PROBLEMS = ("navier-stokes", "darcy")
METHODS = {"full with tf32": "full", "mixed": "mixed"}
# Nvidia's data sheet of the A100 (40 GB): dense products per second in tf32 and fp16, bytes per second.
PRODUCTS = {"full with tf32": 156e12, "mixed": 312e12}
BANDWIDTH = 1.555e12
STEPS: Mapping[Scale, int] = {"smoke": 3, "small": 10, "paper": 50}


@dataclass(frozen=True)
class Epoch:
    """An epoch of the paper's training with one kind of products, and the paper's model beside float64."""

    problem: str
    method: str
    steps: int
    training: Training


def configurations(scale: Scale) -> list[Epoch]:
    """The paper's size at every scale: without the hardware nothing is computed but an error."""
    return [
        Epoch(name, method, STEPS[scale], Training(problem(name, "paper"), precision))
        for name in PROBLEMS
        for method, precision in METHODS.items()
    ]


def has_tf32() -> bool:
    """Ampere's tensor cores and later ones multiply tf32."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)


def measure(epoch: Epoch, lab: Lab) -> list[dict[str, Any]]:
    return [
        {
            "measured_seconds": _measured(epoch, lab) if has_tf32() else None,
            "planned_seconds": _planned(epoch),
            "emulated_error": _emulated_error(epoch.method),
        }
    ]


def _measured(epoch: Epoch, lab: Lab) -> float:
    with _tf32_products(epoch.method == "full with tf32"):
        found = lab.compare({epoch.method: epoch.training}, epoch.steps)[epoch.method]
    return epoch.training.recipe.n_train / found["samples_per_second"]


@contextmanager
def _tf32_products(allowed: bool) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _planned(epoch: Epoch) -> float:
    """A lower bound: every product at the peak rate of its format, every activation and optimizer byte moved once."""
    flops, step = count_step(epoch.training, device="cuda")
    # AdamW reads weight, gradient and two moments, and writes three of them.
    traffic = 2 * step.activations + 7 * step.parameters
    recipe = epoch.training.recipe
    steps = -(-recipe.n_train // epoch.training.config("").batch_size)
    return steps * (flops / PRODUCTS[epoch.method] + traffic / BANDWIDTH)


@torch.no_grad()
def _emulated_error(method: str) -> float:
    """Of a small untrained FNO on random fields against float64, relative L2; tf32 as rounding inside fp32."""
    policy = Policy.uniform("tf32") if method == "full with tf32" else Policy.named("mixed", HALF)
    torch.manual_seed(0)
    model = FNO((8, 8), 1, 1, 16, 4).eval()
    x = torch.randn(4, 1, 32, 32)
    set_precision(model, policy)
    rounded = model(x).double()
    set_precision(model.double(), Policy.uniform("fp64"))
    exact = model(x.double())
    return float((rounded - exact).norm() / exact.norm())


def exhibit(rows: list[Row]) -> Exhibit:
    found = {(row["problem"], row["method"]): row for row in rows}
    lines = tuple(
        Line(
            (TITLES[name], method),
            (PAPER[name, method], None, None),
            (row["measured_seconds"], row["planned_seconds"], row["emulated_error"]),
        )
        for (name, method), row in found.items()
    )
    measured = all(row["measured_seconds"] is not None for row in rows)
    column = "measured_seconds" if measured else "planned_seconds"
    names = tuple(TITLES[name] for name in PROBLEMS)
    bars = tuple(
        Series(method, names, tuple(found[name, method][column] for name in PROBLEMS), "bars") for method in METHODS
    )
    paper = Series("paper, full with tf32", names, tuple(PAPER[name, "full with tf32"] for name in PROBLEMS), "points")
    return Exhibit(
        Comparison(
            ("dataset", "method"),
            ("seconds per epoch", "planned for an A100, s", "error, emulated"),
            lines,
        ),
        (Panel(f"an epoch, {'measured' if measured else 'planned for an A100'}", "", "s", (*bars, paper)),),
        (
            "Planned times are lower bounds: products at the peak rates of Nvidia's data sheet, every byte moved once; "
            "no transform or kernel reaches them.",
            "The error is that of a small untrained FNO against float64, with tf32 emulated as rounding inside fp32; "
            f"mixed is {HALF}.",
        ),
    )


def _check(name: str, rows: list[Row]) -> Outcome:
    found = {row["method"]: row for row in rows if row["problem"] == name}
    tf32, mixed = (found[method]["measured_seconds"] for method in METHODS)
    if tf32 is None or mixed is None:
        return Outcome(UNTESTABLE, f"{TITLES[name]}: {_planned_words(rows)}")
    change = 100 * (1 - mixed / tf32)
    side = "less" if change > 0 else "more"
    clause = f"{TITLES[name]}: an epoch in mixed precision takes {abs(change):.1f}% {side} than in tf32"
    return Outcome.of(change > 0, clause)


def _planned_words(rows: list[Row]) -> str:
    tf32, mixed = (
        statistics.fmean(row["planned_seconds"] for row in rows if row["method"] == method) for method in METHODS
    )
    return (
        "this machine has no tf32 (it takes an Nvidia GPU of compute capability 8.0 or later); planned for an A100, an "
        f"epoch takes at least {tf32:.2g} s in full with tf32 and {mixed:.2g} s in mixed, on average"
    )


PARTS = (
    Part(
        "on an A100 an epoch of Navier-Stokes takes less time mixed than with tf32",
        "53.72 against 57.44 s",
        1442,
        partial(_check, "navier-stokes"),
    ),
    Part(
        "on an A100 an epoch of Darcy flow takes less time mixed than with tf32",
        "13.52 against 14.12 s",
        1442,
        partial(_check, "darcy"),
    ),
)
EXPERIMENT = Experiment(
    name="tf32",
    source="Table 'Training time per epoch on a Nvidia A100 GPU'",
    question="Is mixed precision still faster where the GPU multiplies fp32 as tf32?",
    claim="On an A100 an epoch in mixed precision takes 6% (Navier-Stokes) and 4% (Darcy) less time than in tf32.",
    parts=PARTS,
    measures=(
        Measure("measured_seconds", "seconds per epoch on this machine; empty without tf32", timing=True),
        Measure("planned_seconds", "lower bound for an A100, from operations and bytes"),
        Measure("emulated_error", "relative L2 of a small FNO against float64"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
)
