"""What a scale will take, before it starts: the trainings, their steps, operations and memory, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from halfwave.data import build_generator
from halfwave.experiments.bench import measure_rates
from halfwave.experiments.experiment import Experiment, Scale
from halfwave.experiments.lab import Training
from halfwave.models import build_model, set_precision
from halfwave.precision import Policy
from halfwave.training.measures import StepMeasure, measure, training_step


@dataclass(frozen=True)
class TrainingPlan:
    """One training: its updates, operations of one, and the largest sum of live tensors during one.

    None for point clouds, whose graphs cannot be known without their points.
    """

    training: Training
    steps: int
    flops: float | None
    peak_bytes: int | None


@dataclass(frozen=True)
class Plan:
    """All trainings of some experiments, each once."""

    scale: Scale
    trainings: tuple[TrainingPlan, ...]
    rate: float
    """fp32 operations per second of this machine's products."""

    @property
    def seconds(self) -> float:
        """A lower bound: every operation at the rate of a large product."""
        return sum(plan.steps * plan.flops for plan in self.trainings if plan.flops) / self.rate

    def __str__(self) -> str:
        lines = [f"scale {self.scale}: {len(self.trainings)} trainings"]
        lines += [f"  {_describe(plan)}" for plan in self.trainings]
        known = [plan.peak_bytes for plan in self.trainings if plan.peak_bytes]
        if known:
            lines.append(f"memory: at most {max(known) / 1e6:,.0f} MB of tensors at once")
            lines.append(
                f"time: at least {self.seconds / 3600:,.2g} hours on this machine "
                f"({self.rate / 1e9:.0f} GFLOP/s in fp32), without making the data"
            )
        return "\n".join(lines)


def plan_trainings(experiments: Sequence[Experiment], scale: Scale) -> Plan:
    """The plan of experiments at a scale; a training that several need is counted once."""
    found: dict[str, Training] = {}
    for experiment in experiments:
        for configuration in experiment.keyed(scale).values():
            for training in experiment.trainings(configuration):
                found.setdefault(repr(training), training)
    counts: dict[str, tuple[float, int]] = {}
    return Plan(scale, tuple(_plan(training, counts) for training in found.values()), measure_rates().fp32)


def _plan(training: Training, counts: dict[str, tuple[float, int]]) -> TrainingPlan:
    """The plan of a training; `counts` keeps steps that were counted, which takes long and does not depend on seeds."""
    config = training.config("")
    batches = -(-training.recipe.n_train // config.batch_size)
    steps = -(-batches // config.accumulate) * config.epochs
    if config.model == "GINO":
        return TrainingPlan(training, steps, None, None)
    step = repr(replace(training, seed=0))
    if step not in counts:
        flops, measured = count_step(training)
        counts[step] = flops, measured.peak_memory_bytes
    return TrainingPlan(training, steps, *counts[step])


def count_step(training: Training, policy: Policy | None = None) -> tuple[float, StepMeasure]:
    """Operations and bytes of one step, run on tensors without values; under the last policy of the training's own."""
    config = training.config("")
    x_shape, y_shape = _shapes(training)
    with torch.device("meta"):
        model = build_model(config.model, config.model_arguments(x_shape[0], y_shape[0]))
        x, y = (torch.empty(config.batch_size, *shape) for shape in (x_shape, y_shape))
    set_precision(model, policy or config.build_schedule().policy_at(1.0))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step() -> None:
        training_step(model, lambda a, b: (a - b).square().mean(), optimizer, (x, y))

    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops()), measure(step, model, optimizer, (x, y))


def _shapes(training: Training) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of one input and one output, known from the problem without solving it."""
    recipe = training.recipe
    generator: Any = build_generator(recipe.generator, **recipe.parameters)
    n = generator.resolution
    if recipe.generator == "shallow-water":
        return (3, n, 2 * n), (3, n, 2 * n)
    return (1, *(n,) * getattr(generator, "dim", 2)), (1, *(n,) * getattr(generator, "dim", 2))


def _describe(plan: TrainingPlan) -> str:
    training = plan.training
    memory = "memory not known beforehand" if plan.peak_bytes is None else f"{plan.peak_bytes / 1e6:,.1f} MB"
    work = "" if plan.flops is None else f", {plan.flops / 1e9:.1f} GFLOP a step"
    changes = "".join(f", {name}={value}" for name, value in training.changes.items())
    name = f"{training.recipe.name}, {training.precision}, seed {training.seed}{changes}"
    return f"{name}: {plan.steps} steps, {memory}{work}"
