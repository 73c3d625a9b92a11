"""Exact measures of a training step: live bytes counted at dispatch (see `live_bytes`), and throughput."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from halfwave.live_bytes import LiveBytes, storage_bytes

_UPDATE = "update"

Batch = tuple[Any, Any]
"""Inputs and targets, whatever the model and the loss take."""


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


def training_step(model: nn.Module, loss: Callable[..., Tensor], optimizer: Optimizer, batch: Batch) -> None:
    """The step that is measured: gradients cleared, forward, loss, backward, update."""
    optimizer.zero_grad(set_to_none=True)
    loss(model(batch[0]), batch[1]).backward()
    optimizer.step()


def measure_step(model: nn.Module, loss: Callable[..., Tensor], optimizer: Optimizer, batch: Batch) -> StepMeasure:
    """Run one whole training step and count its bytes.

    An optimizer makes its state at its first step, so call this after one step for the figures of a long run.
    """
    return measure(lambda: training_step(model, loss, optimizer, batch), model, optimizer, batch)


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


def samples_per_second(step: Callable[[], Any], samples: int, steps: int = 10, warm_up: int = 2) -> float:
    """Median throughput of `step()`, a whole training step on `samples` samples in memory, after `warm_up` calls."""
    for _ in range(warm_up):
        step()
    return samples / statistics.median(_timed(step) for _ in range(steps))


def _timed(step: Callable[[], Any]) -> float:
    synchronize()
    start = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - start


def synchronize() -> None:
    """Wait for the GPU, where there is one: its clock is not ours."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


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
