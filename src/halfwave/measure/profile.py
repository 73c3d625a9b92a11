"""Where the time and the memory of a training step go: by part, by module and by kernel, as the paper's appendix shows.

Time is torch's profiler's (`profile_times` says whose it is). Memory is counted at dispatch (`LiveBytes`), in a step of
its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from halfwave.errors import InputError
from halfwave.files import written_aside
from halfwave.measure.clocks import synchronize
from halfwave.measure.live_bytes import LiveBytes, storage_bytes
from halfwave.measure.profile_times import RANGE, ProfileTimes
from halfwave.measure.ranges import is_spectral, wrap_stages
from halfwave.measure.step import TrainingStep, training_step
from halfwave.precision import PolicyModule

_POINTS = 2000  # of the memory curve in the result file


def profile_step(step: TrainingStep, steps: int = 3, trace: str | Path | None = None) -> dict[str, Any]:
    """Profile `steps` training steps after two that are not counted; JSON-able. `trace` gets the Chrome trace.

    Seconds are per step. Keys: the setting's, `seconds`, `spectral_share`, `parts`, `modules`, `kernels` (largest
    first) and `memory`.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    cuda = any(p.is_cuda for p in step.model.parameters())
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # its notes on starting and stopping are not for users
    with _ranges(step) as loss:
        for _ in range(2):
            training_step(step.model, loss, step.optimizer, step.batch)
        with profile(activities=activities) as profiler:
            for _ in range(steps):
                training_step(step.model, loss, step.optimizer, step.batch)
            synchronize()
    if trace is not None:
        with written_aside(trace) as aside:
            profiler.export_chrome_trace(str(aside))
    times = ProfileTimes(profiler.events() or [], step.model, cuda, steps)
    return {
        "kind": "profile",
        **step.setting,
        "steps": steps,
        "seconds": times.total,
        "spectral_share": times.spectral_share,
        "parts": times.parts(),
        "modules": times.modules(),
        "kernels": times.kernels(),
        "memory": measure_memory(step),
    }


def measure_memory(step: TrainingStep) -> dict[str, Any]:
    """Live bytes through one training step, in the order of allocations and frees.

    `live_bytes` is the curve, thinned to the largest value of each stretch; `phases` says where forward, backward and
    update begin on it; `held_bytes` are parameters, optimizer state and batch, which are there all the time.
    """
    lasting = step.lasting()
    with LiveBytes() as live, ExitStack() as hooks:
        live.hold(lasting)
        step.optimizer.zero_grad(set_to_none=True)
        hooks.callback(step.model.register_forward_pre_hook(lambda *_: live.mark("forward")).remove)
        hooks.callback(step.optimizer.register_step_pre_hook(lambda *_: live.mark("update")).remove)

        def loss(prediction: Tensor, target: Any) -> Tensor:
            value = step.loss(prediction, target)
            live.mark("backward")
            return value

        training_step(step.model, loss, step.optimizer, step.batch)
    curve = live.curve()
    stretch = -(-len(curve) // _POINTS)
    return {
        "peak_bytes": max(curve),
        "held_bytes": storage_bytes(lasting),
        "events": len(curve),
        "phases": [{"name": name, "start": start / len(curve)} for name, start in live.marks],
        "live_bytes": [max(curve[i : i + stretch]) for i in range(0, len(curve), stretch)],
    }


@contextmanager
def _ranges(step: TrainingStep) -> Iterator[Callable[..., Tensor]]:
    """While active the modules and stages of the model are named ranges of the profiler; yields the loss as one."""
    with ExitStack() as undo:
        for name, module in step.model.named_modules():
            if isinstance(module, PolicyModule):
                _name_module(module, f"{RANGE}module:{name}", undo)
            if is_spectral(module):
                undo.callback(wrap_stages(module, partial(_named, name)))

        def loss(prediction: Tensor, target: Any) -> Tensor:
            with record_function(f"{RANGE}loss:"):
                return step.loss(prediction, target)

        yield loss


def _name_module(module: nn.Module, label: str, undo: ExitStack) -> None:
    entered: list[record_function] = []

    def enter(*_: Any) -> None:
        entered.append(record_function(label))
        entered[-1].__enter__()

    def leave(*_: Any) -> None:
        entered.pop().__exit__(None, None, None)

    undo.callback(module.register_forward_pre_hook(enter).remove)
    undo.callback(module.register_forward_hook(leave, always_call=True).remove)


def _named(module: str, stage: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def named(*arguments: Any, **options: Any) -> Tensor:
        with record_function(f"{RANGE}{stage}:{module}"):
            return function(*arguments, **options)

    return named
