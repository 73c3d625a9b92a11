"""Engine: the model, its optimizer and all that one update needs, on one or several processes.

One update takes a group of batches (more than one with delayed updates), each shared out to the processes. Its loss is
the mean over all samples of the group, whatever the shares, so the same global batch gives the same update on any
number of processes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from halfwave.measure import StepMeasure, measure
from halfwave.models import (
    Unrolled,
    recompute_blocks,
    set_precision,
    settle_stabilizers,
    settled_stabilizers,
    stepping_model,
)
from halfwave.optimizers import build_optimizer
from halfwave.precision import Policy
from halfwave.training.batches import Batch
from halfwave.training.clouds import Inputs
from halfwave.training.config import AUTO, TrainConfig
from halfwave.training.devices import add_up, whole
from halfwave.training.losses import Loss
from halfwave.training.operator import Operator
from halfwave.training.run_state import random_states, restore_random_states
from halfwave.training.saving import load_tensors
from halfwave.training.team import Replicas, Team

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_RISE = 0.3
_FIRST = 1 / 25


def _fall(progress: float) -> float:
    """A cosine from 1 at the first update to 0 after the last."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def _one_cycle(progress: float) -> float:
    """From 1/25 up to 1 over the first 30% of updates and down to 0, both along a cosine (Smith and Topin, 2018)."""
    if progress < _RISE:
        return 1 - (1 - _FIRST) * _fall(progress / _RISE)
    return _fall((progress - _RISE) / (1 - _RISE))


_RATES: dict[str, Callable[[float], float]] = {
    "cosine": _fall,
    "one-cycle": _one_cycle,
    "constant": lambda progress: 1.0,
}


@dataclass(frozen=True)
class Update:
    """What an update did: the sum of its samples' losses, how many, and whether the weights moved.

    Samples with a zero target have no loss; `samples` does not count them.
    """

    loss_sum: float
    samples: int
    zero_targets: int
    applied: bool
    interrupted: bool = False

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss_sum)


class Engine:
    """Trains one operator; its whole state can be taken out and put back bit for bit."""

    def __init__(
        self,
        fabric: Fabric,
        operator: Operator,
        loss: Loss,
        config: TrainConfig,
        total_steps: int,
        team: Team | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.fabric, self.operator, self.loss, self.config = fabric, operator, loss, config
        self.team = team or Replicas(fabric, config.strategy)
        if config.recompute:
            recompute_blocks(stepping_model(operator.model))
        if config.compile is True if compiled is None else compiled:
            operator.set_compiled(True)
        self.module = self.team.setup(operator)
        self.optimizer = build_optimizer(config.optimizer, self.module, config.learning_rate, config.weight_decay)
        self.total_steps = total_steps
        self.scaler = torch.amp.GradScaler(fabric.device.type, enabled=config.loss_scaling)
        self.policy: Policy | None = None

    def set_policy(self, policy: Policy) -> None:
        """Move the model to a policy. Master weights and optimizer state are fp32 throughout and stay as they are."""
        if policy != self.policy:
            set_precision(self.operator.model, policy)
            self.policy = policy

    def set_step(self, step: int) -> None:
        """Set the learning rate of an update; it depends on the number of updates before it alone."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)

    def set_horizon(self, progress: float) -> int | None:
        """Set how far training looks in time; it depends on the part of the batches that is done alone."""
        model = self.operator.model
        if not isinstance(model, Unrolled):
            return None
        model.set_steps(self.config.horizon_at(progress))
        return model.steps

    def learning_rate(self, step: int) -> float:
        """The config's rate times what its scheduler says of the part of the updates that is done."""
        return self.config.learning_rate * _RATES[self.config.scheduler](min(1.0, step / self.total_steps))

    def update(self, batches: Sequence[Batch], total: int, interrupted: bool = False) -> Update:
        """One update from this process's shares of a group of batches; `total` counts the samples of all shares."""
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss_sum, interrupted, counted = self._backward(batches, total, interrupted)
        # Without loss scaling a non-finite loss must not reach the weights; with it, the scaler sees to that.
        applied = (math.isfinite(loss_sum) or self.config.loss_scaling) and self._step()
        return Update(loss_sum, counted, total - counted, applied, interrupted)

    def measured_update(self, *arguments: Any) -> tuple[Update, StepMeasure]:
        """The same update under the byte counter."""
        results: list[Update] = []
        tensors = [tensor for batch in arguments[0] for tensor in batch.tensors()]
        measured = measure(lambda: results.append(self.update(*arguments)), self.operator, self.optimizer, tensors)
        return results[0], measured

    def warm_up(self, batches: Sequence[Batch], total: int) -> None:
        """Fill the caches (transform matrices, plans, neighbours) by one pass that moves nothing.

        After it the count of an update is that of every later one, whether the process is old or has just resumed.
        """
        self._backward(batches, total, False)

    def _backward(self, batches: Sequence[Batch], total: int, interrupted: bool) -> tuple[float, bool, int]:
        """Gradients of the mean loss over the group.

        Returns the sum of losses, whether any process must stop, and how many targets are not zero.
        """
        team = self.team
        sums = torch.tensor([0.0, float(interrupted)], device=self.fabric.device, dtype=torch.float64)
        for i, batch in enumerate(batches):
            with team.synchronised(self.module, i + 1 == len(batches)):
                local = self.loss.per_sample(self._predict(batch.x), batch.y).sum() * batch.weight
                # Where processes average their gradients, the factor makes the average a sum over all samples.
                self.scaler.scale(local * (team.averaged / total)).backward()
            sums[0] += local.detach() / team.copies
        counts = [self.loss.counted(batch.y).sum() * (batch.weight / team.copies) for batch in batches]
        loss_sum, stops, counted = add_up(self.fabric, torch.cat([sums, torch.stack(counts).sum()[None]])).tolist()
        return loss_sum, stops > 0, round(counted)

    @property
    def compiled(self) -> bool:
        """Whether updates run compiled."""
        return self.operator.compiled

    def _predict(self, x: Inputs) -> Tensor:
        """The model's answer; one sample alone runs eagerly, as the compiler takes a size of one for a constant."""
        if not self.compiled:
            return self.module(x)
        if len(x) < 2 <= self.config.batch_size // self.config.processes:
            with torch.compiler.set_stance("force_eager"):
                return self.module(x)
        return self._predict_compiled(x)

    def _predict_compiled(self, x: Inputs) -> Tensor:
        """Where nobody has asked for it, a compiler that fails is no reason to stop."""
        try:
            return self.module(x)
        except torch._dynamo.exc.TorchDynamoException as error:
            if self.config.compile != AUTO:
                raise
            reason = " ".join(str(error).split())[:200]
            warnings.warn(f"the compiler failed, training goes on eagerly: {reason}", stacklevel=2)
            self.operator.set_compiled(False)
            return self.module(x)

    def _step(self) -> bool:
        """Clip and apply the gradients; False if they were not finite and the weights stayed."""
        if not self.config.loss_scaling:
            if not self._gradients_usable():
                return False
            self.optimizer.step()
            return True
        if self.config.clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.module.parameters(), self.config.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale() >= scale

    def _gradients_usable(self) -> bool:
        """Clip; look at the norm only where it is needed, as it is one more pass over all gradients."""
        if self.config.clip is None and self.config.on_nonfinite == "stop":
            return True
        largest = math.inf if self.config.clip is None else self.config.clip
        return math.isfinite(self.team.clip(self.module.parameters(), largest))

    @property
    def loss_scale(self) -> float | None:
        return self.scaler.get_scale() if self.config.loss_scaling else None

    def finite(self) -> bool:
        """True when every parameter is finite on every process."""
        bad = sum(bool((~torch.isfinite(p.detach())).any()) for p in _local(self.module.parameters()))
        return not bool(add_up(self.fabric, torch.tensor(float(bad))))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All tensors and JSON values that decide how training goes on. Every process must call this together."""
        tensors = {f"model.{name}": whole(t) for name, t in self.operator.model.state_dict().items()}
        optimizer = self.optimizer.state_dict()
        parameters = self._parameters()
        for i, entry in optimizer["state"].items():
            tensors |= {f"optimizer.{i}.{key}": self.team.whole(parameters[i], t) for key, t in entry.items()}
        random_tensors, random_values = random_states()
        tensors |= {f"random.{name}": t for name, t in random_tensors.items()}
        return tensors, {
            "groups": optimizer["param_groups"],
            "scaler": self.scaler.state_dict(),
            "policy": None if self.policy is None else self.policy.to_dict(),
            "stabilizers": settled_stabilizers(self.operator.model),
            "random": random_values,
            "compiled": self.compiled,
        }

    def _parameters(self) -> list[nn.Parameter]:
        """As the optimizer numbers them."""
        return list(self.optimizer.param_groups[0]["params"])

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Put back what `state` took out, in whatever shards this run has."""
        load_tensors(self.operator.model, _under("model.", tensors), "the checkpoint")
        parameters = self._parameters()
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimizer.", tensors).items():
            index, key = name.split(".", 1)
            state.setdefault(int(index), {})[key] = self.team.own(parameters[int(index)], tensor)
        self.optimizer.load_state_dict({"state": state, "param_groups": values["groups"]})
        if values["scaler"]:
            self.scaler.load_state_dict(values["scaler"])
        if values["policy"] is not None:
            self.set_policy(Policy.from_dict(values["policy"]))
        settle_stabilizers(self.operator.model, values.get("stabilizers", {}))
        if self.config.compile == AUTO:
            self.operator.set_compiled(values.get("compiled", False))
        restore_random_states(_under("random.", tensors), values["random"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _local(tensors: Any) -> list[Tensor]:
    return [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
