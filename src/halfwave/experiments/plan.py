"""What a scale will take, before it starts: the trainings, their steps, operations and memory, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from halfwave.data import sample_shapes
from halfwave.experiments.experiment import Experiment, Scale
from halfwave.experiments.lab import Training
from halfwave.measure import measure_rates
from halfwave.models import build_model
from halfwave.planner import MemoryPlan, plan_memory
from halfwave.precision import Policy


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
class TrainingsPlan:
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


def plan_trainings(experiments: Sequence[Experiment], scale: Scale) -> TrainingsPlan:
    """The plan of experiments at a scale; a training that several need is counted once."""
    found: dict[str, Training] = {}
    for experiment in experiments:
        for configuration in experiment.keyed(scale).values():
            for training in experiment.trainings(configuration):
                found.setdefault(repr(training), training)
    counts: dict[str, tuple[float, int]] = {}
    device = "cuda" if scale == "paper" else None  # that scale is meant for a GPU
    return TrainingsPlan(
        scale, tuple(_plan(training, counts, device) for training in found.values()), measure_rates().fp32
    )


def _plan(training: Training, counts: dict[str, tuple[float, int]], device: str | None) -> TrainingPlan:
    """The plan of a training; `counts` keeps steps that were counted, which takes long and does not depend on seeds."""
    config = training.config("")
    batches = -(-training.recipe.n_train // config.batch_size)
    steps = -(-batches // config.accumulate) * config.epochs
    if not training.recipe.domain.has_grid:
        return TrainingPlan(training, steps, None, None)
    step = repr(replace(training, seed=0))
    if step not in counts:
        flops, memory = count_step(training, device=device)
        counts[step] = flops, memory.peak_bytes
    return TrainingPlan(training, steps, *counts[step])


def count_step(training: Training, policy: Policy | None = None, device: str | None = None) -> tuple[float, MemoryPlan]:
    """Operations and bytes of one step on a device ("cpu", "cuda"; None: this one), run on tensors without values.

    Under the last policy of the training's own schedule, unless another is given.
    """
    config = training.config("")
    x_shape, y_shape = sample_shapes(training.recipe.build_generator())
    with torch.device("meta"):
        model = build_model(config.model, config.model_arguments(x_shape[0], y_shape[0]))
    shapes = [(config.batch_size, *shape) for shape in (x_shape, y_shape)]
    policy = policy or config.build_schedule().policy_at(1.0)
    with FlopCounterMode(display=False) as counter:  # in one piece: of slices a memory plan runs only a few
        whole = plan_memory(model, shapes, policy=policy, recompute=config.recompute, device="cuda")
    if device == "cuda":
        return float(counter.get_total_flops()), whole
    planned = plan_memory(model, shapes, policy=policy, recompute=config.recompute, device=device)
    return float(counter.get_total_flops()), planned


def _describe(plan: TrainingPlan) -> str:
    training = plan.training
    memory = "memory not known beforehand" if plan.peak_bytes is None else f"{plan.peak_bytes / 1e6:,.1f} MB"
    work = "" if plan.flops is None else f", {plan.flops / 1e9:.1f} GFLOP a step"
    changes = "".join(f", {name}={value}" for name, value in training.changes.items())
    name = f"{training.recipe.name}, {training.precision}, seed {training.seed}{changes}"
    return f"{name}: {plan.steps} steps, {memory}{work}"
