"""A training step, and what it holds at most: live bytes counted at dispatch (see `live_bytes`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from halfwave.measure.live_bytes import LiveBytes, storage_bytes

_UPDATE = "update"


@dataclass(frozen=True)
class TrainingStep:
    """A training step that can be run: `batch` is inputs and targets, whatever the model and the loss take.

    `setting` says what it is, for the record of a measurement.
    """

    model: nn.Module
    loss: Callable[..., Tensor]
    optimizer: Optimizer
    batch: tuple[Any, Any]
    setting: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        training_step(self.model, self.loss, self.optimizer, self.batch)

    def measure(self) -> StepMeasure:
        return measure(self.run, self.model, self.optimizer, self.batch_tensors())

    def batch_tensors(self) -> list[Tensor]:
        return [tensor for side in self.batch for tensor in tensors_of(side)]

    def lasting(self) -> list[Tensor]:
        """What is there before the step and after it: parameters, buffers, optimizer state and batch."""
        return [*self.model.parameters(), *self.model.buffers(), *_state(self.optimizer), *self.batch_tensors()]


def tensors_of(side: Any) -> list[Tensor]:
    """Every tensor of one side of a batch: itself, or what it says that its `tensors()` are (clouds)."""
    return [side] if isinstance(side, Tensor) else side.tensors()


@dataclass(frozen=True)
class StepMeasure:
    """What one training step holds at most.

    `activation_bytes` is the largest sum of live bytes that are not parameters, gradients, optimizer state or batch,
    in the forward and the backward pass: an optimizer may make temporaries as large as the weights, which say nothing
    of the model. `peak_memory_bytes` counts all.
    """

    peak_memory_bytes: int
    activation_bytes: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    batch_bytes: int


def training_step(model: nn.Module, loss: Callable[..., Tensor], optimizer: Optimizer, batch: tuple[Any, Any]) -> None:
    """The step that is measured: gradients cleared, forward, loss, backward, update."""
    optimizer.zero_grad(set_to_none=True)
    loss(model(batch[0]), batch[1]).backward()
    optimizer.step()


def measure_step(
    model: nn.Module, loss: Callable[..., Tensor], optimizer: Optimizer, batch: tuple[Any, Any]
) -> StepMeasure:
    """Run one whole training step and count its bytes.

    An optimizer makes its state at its first step, so call this after one step for the figures of a long run.
    """
    return TrainingStep(model, loss, optimizer, batch).measure()


def measure(step: Callable[[], Any], model: nn.Module, optimizer: Optimizer, batch: Sequence[Tensor]) -> StepMeasure:
    """Count the bytes of `step()`, which trains `model` on `batch` and leaves its gradients in place."""
    with LiveBytes() as live:
        held = live.hold(_parts(model, optimizer, batch))
        live.hold(model.buffers())
        hook = optimizer.register_step_pre_hook(lambda *_: live.mark(_UPDATE))
        try:
            step()
        finally:
            hook.remove()
        # Twice: the gradients of the step before are freed in the step, its own and a new state are made in it.
        held |= live.hold(_parts(model, optimizer, batch))
    return StepMeasure(
        peak_memory_bytes=live.peak(),
        activation_bytes=live.peak(without=held, until=_UPDATE),
        parameter_bytes=storage_bytes(model.parameters()),
        gradient_bytes=storage_bytes(_gradients(model)),
        optimizer_bytes=storage_bytes(_state(optimizer)),
        batch_bytes=storage_bytes(batch),
    )


def take_allocator_peak(device: torch.device) -> int | None:
    """The CUDA allocator's own peak since the last call: it also sees scratch space and compiled graphs."""
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return peak


def _parts(model: nn.Module, optimizer: Optimizer, batch: Sequence[Tensor]) -> list[Tensor]:
    return [*model.parameters(), *_gradients(model), *_state(optimizer), *batch]


def _gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def _state(optimizer: Optimizer) -> Iterator[Tensor]:
    for values in optimizer.state.values():
        yield from (value for value in values.values() if isinstance(value, Tensor))
