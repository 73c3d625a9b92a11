"""Engine: the model, its optimizer and all that one update needs, on one or several processes.

One update takes a group of batches (more than one with delayed updates), each shared out to the processes. Its loss is
the mean over all samples of the group, whatever the shares, so the same global batch gives the same update on any
number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from halfwave.models import set_precision
from halfwave.precision import Policy
from halfwave.training.config import TrainConfig
from halfwave.training.losses import Loss
from halfwave.training.measures import StepMeasure, measure
from halfwave.training.operator import Operator
from halfwave.training.randomness import random_states, restore_random_states
from halfwave.training.saving import load_tensors

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Update:
    """What an update did: the sum of its samples' losses, how many, and whether the weights moved."""

    loss_sum: float
    samples: int
    applied: bool = True

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss_sum)


class Engine:
    """Trains one operator; its whole state can be taken out and put back bit for bit."""

    def __init__(self, fabric: Fabric, operator: Operator, loss: Loss, config: TrainConfig, total_steps: int) -> None:
        self.fabric, self.operator, self.loss, self.config = fabric, operator, loss, config
        self.module = fabric.setup_module(operator)
        self.optimizer = build_optimizer(self.module, config)
        self.scheduler = LambdaLR(self.optimizer, _factor(config.scheduler, total_steps))
        self.scaler = torch.amp.GradScaler(fabric.device.type, enabled=config.loss_scaling)
        self.policy: Policy | None = None

    def set_policy(self, policy: Policy) -> None:
        """Move the model to a policy. Master weights and optimizer state are fp32 throughout and stay as they are."""
        if policy != self.policy:
            set_precision(self.operator.model, policy)
            self.policy = policy

    def update(self, batches: Sequence[Pair], total: int) -> Update:
        """One update from this process's shares of a group of batches; `total` counts the samples of all shares."""
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss_sum = self._backward(batches, total)
        result = Update(loss_sum, total)
        if not result.finite:
            return Update(loss_sum, total, applied=False)
        applied = self._step()
        self.scheduler.step()
        return Update(loss_sum, total, applied)

    def measured_update(self, batches: Sequence[Pair], total: int) -> tuple[Update, StepMeasure]:
        """The same update under the byte counter."""
        results: list[Update] = []
        tensors = [tensor for pair in batches for tensor in pair]
        measured = measure(lambda: results.append(self.update(batches, total)), self.operator, self.optimizer, tensors)
        return results[0], measured

    def _backward(self, batches: Sequence[Pair], total: int) -> float:
        """Gradients of the mean loss over the group; returns the sum of losses over all processes."""
        ranks = self.fabric.world_size
        loss_sum = torch.zeros((), device=self.fabric.device, dtype=torch.float64)
        for i, (x, y) in enumerate(batches):
            with self.fabric.no_backward_sync(self.module, enabled=i + 1 < len(batches)):
                local = self.loss.per_sample(self.module(x), y).sum()
                # Processes average their gradients, so the factor `ranks` makes the average a sum over all samples.
                self.fabric.backward(self.scaler.scale(local * (ranks / total)))
            loss_sum += local.detach()
        return float(add_up(self.fabric, loss_sum))

    def _step(self) -> bool:
        """Clip and apply the gradients; False if they were not finite and the weights stayed."""
        if self.config.clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.module.parameters(), self.config.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale() >= scale

    @property
    def learning_rate(self) -> float:
        return self.optimizer.param_groups[0]["lr"]

    @property
    def loss_scale(self) -> float | None:
        return self.scaler.get_scale() if self.config.loss_scaling else None

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All tensors and JSON values that decide how training goes on."""
        tensors = {f"model.{name}": t for name, t in self.operator.model.state_dict().items()}
        optimizer = self.optimizer.state_dict()
        tensors |= {f"optimizer.{i}.{k}": t for i, entry in optimizer["state"].items() for k, t in entry.items()}
        random_tensors, random_values = random_states()
        tensors |= {f"random.{name}": t for name, t in random_tensors.items()}
        scheduler = {k: v for k, v in self.scheduler.state_dict().items() if k != "lr_lambdas"}
        values = {"groups": optimizer["param_groups"], "scheduler": scheduler, "scaler": self.scaler.state_dict()}
        return tensors, {**values, "random": random_values}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Put back what `state` took out."""
        load_tensors(self.operator.model, _under("model.", tensors), "the checkpoint")
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimizer.", tensors).items():
            index, key = name.split(".", 1)
            state.setdefault(int(index), {})[key] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": values["groups"]})
        self.scheduler.load_state_dict({**values["scheduler"], "lr_lambdas": [None]})
        if values["scaler"]:
            self.scaler.load_state_dict(values["scaler"])
        restore_random_states(_under("random.", tensors), values["random"])


def add_up(fabric: Fabric, value: Tensor) -> Tensor:
    """The sum of a tensor over all processes."""
    if fabric.world_size == 1:
        return value
    total = fabric.all_reduce(value, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


def build_optimizer(module: nn.Module, config: TrainConfig) -> AdamW:
    """AdamW in one fused kernel; every parameter is a real fp32 tensor, so it always applies on cpu and cuda."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    return AdamW(parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=fused)


def _factor(scheduler: str, total_steps: int) -> Any:
    """The learning rate as a share of the first: a function of the step alone."""
    if scheduler == "constant":
        return lambda step: 1.0
    return lambda step: 0.5 * (1 + math.cos(math.pi * min(1.0, step / total_steps)))


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
