"""gradient-underflow: gradients in fp16 without loss scaling, along a training.

The weights follow a training in full precision. At some of its steps the gradient of the same batch is computed in
mixed precision, with and without a scale on the loss, and compared with that in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from halfwave.data import Dataset
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import SCALES, Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import mean, select, train_as
from halfwave.experiments.pairing import Paired, pair
from halfwave.models import computing_in
from halfwave.precision import Policy
from halfwave.recipes import TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import Batch, Engine, build_engine, cut, epoch_order

SCALE = 65536.0
"""The first scale of torch's GradScaler."""
VARIANTS: Mapping[str, tuple[Policy, float]] = {
    "fp16, no loss scaling": (Policy.named("mixed", "fp16"), 1.0),
    "fp16, loss scaling": (Policy.named("mixed", "fp16"), SCALE),
    "bf16": (Policy.named("mixed", "bf16"), 1.0),
}
PROBLEMS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("darcy",),
    "small": ("navier-stokes", "darcy"),
    "medium": ("navier-stokes", "darcy"),
    "paper": ("navier-stokes", "darcy"),
}
SEEDS: Mapping[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1, 2), "medium": (0, 1, 2), "paper": (0, 1, 2)}
STEPS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (0, 2),
    "small": (0, 5, 20, 60),
    "medium": (0, 10, 50, 150, 300),
    "paper": (0, 100, 1000, 5000),
}
LOST = 10.0
"""Percent by which a gradient is off when it is called lost to underflow."""


@dataclass(frozen=True)
class Descent:
    """The first steps of a training in full precision."""

    problem: str
    seed: int
    steps: tuple[int, ...]
    training: Training


def configurations(scale: Scale) -> list[Descent]:
    return [
        Descent(name, seed, STEPS[scale], train_as("full", problem(name, scale), seed))
        for name in PROBLEMS[scale]
        for seed in SEEDS[scale]
    ]


def measure(descent: Descent, lab: Lab) -> list[dict[str, Any]]:
    training = descent.training
    dataset = lab.dataset(training.recipe, training.data_seed)
    assert isinstance(dataset, Dataset)
    config = training.config(lab.data(training.recipe, training.data_seed))
    engine = build_engine(config, dataset)
    rows: list[dict[str, Any]] = []
    step, epoch = 0, 0
    while step <= max(descent.steps):
        for indices in cut(epoch_order(config.seed, epoch, len(dataset.train)), config.batch_size):
            batch = Batch(*dataset.train[indices])
            if step in descent.steps:
                rows += [{"step": step, **row} for row in _gradients(engine, batch)]
            engine.update([batch], len(batch))
            step += 1
            if step > max(descent.steps):
                break
        epoch += 1
    return rows


def _gradients(engine: Engine, batch: Batch) -> list[dict[str, Any]]:
    """The gradient of each variant beside full's: how far off, and which part of its entries is exactly zero."""
    exact = _gradient(engine, batch, Policy.named("full"), 1.0)
    rows = []
    for name, (policy, scale) in VARIANTS.items():
        found = _gradient(engine, batch, policy, scale)
        error = float((found - exact).norm() / exact.norm()) if bool(found.isfinite().all()) else None
        vanished = float(((found == 0) & (exact != 0)).double().mean())
        rows.append({"variant": name, "error": error, "vanished": vanished})
    return rows


def _gradient(engine: Engine, batch: Batch, policy: Policy, scale: float) -> Tensor:
    """All entries in one vector, float64; the optimizer and the weights stay as they are."""
    operator = engine.operator
    with computing_in(operator, policy):
        loss = engine.loss(operator(batch.x), batch.y)
        found = torch.autograd.grad(scale * loss, list(operator.parameters()))
    return torch.cat([gradient.double().flatten() for gradient in found]) / scale


def exhibit(rows: list[Row]) -> Exhibit:
    groups = tuple(dict.fromkeys((row["problem"], row["variant"], row["step"]) for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "variant", "step"),
            ("error of the gradient, %", "entries that vanish, %"),
            tuple(_line(rows, *group) for group in groups),
        ),
        tuple(_panel(rows, name) for name in dict.fromkeys(name for name, _, _ in groups)),
        (
            "Not in the paper. The weights are those of a training in full precision after so many steps; a vanished "
            "entry is zero in mixed precision and not in full.",
            _first_lost(rows),
        ),
    )


def _first_lost(rows: list[Row]) -> str:
    """The step from which on the gradient without loss scaling is lost."""
    texts = []
    for name in dict.fromkeys(row["problem"] for row in rows):
        errors = {s: mean(_found(rows, name, "fp16, no loss scaling", s), "error") for s in _steps(rows)}
        lost = [step for step, error in errors.items() if error is None or 100 * error > LOST]
        texts.append(f"{TITLES[name]}: {'at step ' + str(lost[0]) if lost else 'at none of the steps'}")
    return f"Without loss scaling the gradient is off by more than {LOST:.0f}%: {'; '.join(texts)}."


def _steps(rows: list[Row]) -> list[int]:
    return sorted({row["step"] for row in rows})


def _found(rows: list[Row], name: str, variant: str, step: int) -> list[Row]:
    return select(rows, problem=name, variant=variant, step=step)


def _line(rows: list[Row], name: str, variant: str, step: int) -> Line:
    found = _found(rows, name, variant, step)
    error, vanished = (mean(found, column) for column in ("error", "vanished"))
    ours = (None if error is None else 100 * error, None if vanished is None else 100 * vanished)
    return Line((TITLES[name], variant, step), (None, None), ours)


def _panel(rows: list[Row], name: str) -> Panel:
    series = []
    for variant in VARIANTS:
        errors = {step: mean(_found(rows, name, variant, step), "error") for step in _steps(rows)}
        known = {step: 100 * error for step, error in errors.items() if error is not None}
        series.append(Series(variant, tuple(known), tuple(known.values())))
    return Panel(TITLES[name], "step", "error of the gradient, %", tuple(series), ylog=True)


def _paired(name: str, rows: list[Row], one: str, other: str) -> Paired | None:
    """The gradient's errors of two variants at the last step, seed by seed."""
    last = _steps(rows)[-1]
    found, against = (_found(rows, name, variant, last) for variant in (one, other))
    return pair(found, against, "error") if found and against else None


def _check(name: str, rows: list[Row]) -> Outcome | None:
    paired = _paired(name, rows, "fp16, no loss scaling", "fp16, loss scaling")
    what = f"{TITLES[name]}, step {_steps(rows)[-1]}: the error of the gradient without loss scaling against with it"
    return None if paired is None else paired.above(what)


def _check_scaled(name: str, rows: list[Row]) -> Outcome | None:
    """With loss scaling fp16 is nearer to full's gradient than bf16 is."""
    paired = _paired(name, rows, "fp16, loss scaling", "bf16")
    what = f"{TITLES[name]}, step {_steps(rows)[-1]}: the error of the gradient in fp16, scaled, against bf16"
    return None if paired is None else paired.below(what)


PARTS = tuple(
    part
    for name in ("navier-stokes", "darcy")
    for part in (
        Part(f"without loss scaling gradients in fp16 underflow on {TITLES[name]}", check=partial(_check, name)),
        Part(f"with it they are nearer to full's than in bf16 on {TITLES[name]}", check=partial(_check_scaled, name)),
    )
)
EXPERIMENT = Experiment(
    name="gradient-underflow",
    source="Our own; the paper uses the loss scaling of AMP without a study of it",
    question="From which step on do gradients in fp16 underflow without loss scaling?",
    claim="Gradients in fp16 need loss scaling; with it they are better than in bf16.",
    parts=PARTS,
    measures=(
        Measure("step", "updates in full precision before"),
        Measure("variant", "format and scaling of the gradient"),
        Measure("error", "relative distance from the gradient in full precision; empty where it is not finite"),
        Measure("vanished", "part of the entries that are zero and not so in full"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    scales=SCALES,
)
