"""Bytes that a CPU's allocator hands out during a step: what compiled graphs hold as well, which no dispatch shows.

`LiveBytes` counts tensors as operators make them; a compiled graph is one operator to it. The profiler hears every
allocation and release, with its address. It hears of scratch space inside kernels too, so that for an eager step this
count is a little above that of `LiveBytes` (58.9 and 56.9 MB for a mixed step of the 64x64 FNO of `halfwave bench`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import accumulate
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile

Allocation = tuple[int, int]
"""Address, and bytes: negative where they are given back."""


def allocated_activations(step: Callable[[], object], model: nn.Module, optimizer: Optimizer | None = None) -> int:
    """The most that `step()` holds of what it allocates on a CPU, gradients of the model left out, up to the update.

    As `measure(...).activation_bytes`: parameters, optimizer state and batch are older than the step, and so are tables
    that a model keeps, which that counts. Call it after a step, whose gradients this one drops, and where the graph is
    compiled already.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # its notes on starting and stopping are not for users
    profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    hooks = [] if optimizer is None else [optimizer.register_step_pre_hook(lambda *_: _stop(profiler))]
    profiler.start()
    try:
        step()
    finally:
        _stop(profiler)
        for hook in hooks:
            hook.remove()
    gradients = {p.grad.untyped_storage().data_ptr() for p in model.parameters() if p.grad is not None}
    return largest_sum(allocations_in(profiler), gradients)


def largest_sum(log: Iterable[Allocation], lasting: Collection[int]) -> int:
    """The largest sum of bytes that are allocated in `log`, without what lies at its end at a `lasting` address.

    An address serves one block after the other. A release of what was allocated before the log begins counts nothing.
    """
    at: dict[int, int] = {}  # address -> number of the block that lies there
    blocks: list[tuple[int, int]] = []  # number of a block, and its change in bytes
    for number, (address, change) in enumerate(log):
        if change > 0:
            at[address] = number
            blocks.append((number, change))
        elif address in at:
            blocks.append((at.pop(address), change))
    left_out = {number for address, number in at.items() if address in lasting}
    return max(accumulate((change for number, change in blocks if number not in left_out), initial=0))


def allocations_in(profiler: profile) -> list[Allocation]:
    """Of a profile with memory, in order."""
    from torch._C._profiler import _EventType

    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    found = [event for event in _walk(tree) if event.tag == _EventType.Allocation]
    found.sort(key=lambda event: event.start_time_ns)
    return [(event.extra_fields.ptr, event.extra_fields.alloc_size) for event in found]


def _walk(events: Iterable[Any]) -> Iterator[Any]:
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting += event.children


def _stop(profiler: profile) -> None:
    """Once: at the update, or where the step ends without one."""
    if profiler.profiler is not None and profiler.profiler.kineto_results is None:
        profiler.stop()
