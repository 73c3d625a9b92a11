"""Clocks: how long a call takes, for each kind of question one way to ask it.

A machine's speed drifts from minute to minute (other processes, clock rates). The median tells what a call takes here
and now; the best of several what it takes when nothing else runs, as whatever else the machine does can only make one
slower. Calls that are compared take turns in one process: what drifts, drifts for all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

Call = Callable[[], object]


def synchronize(device: torch.device | None = None) -> None:
    """Wait for the GPU, where there is one: its clock is not ours. For what runs on a CPU `device` saves the wait."""
    if torch.cuda.is_available() and (device is None or device.type == "cuda"):
        torch.cuda.synchronize(device)


def now(device: torch.device | None = None) -> float:
    """The clock, for what cannot be called by itself, as a layer inside a model: differences are seconds."""
    synchronize(device)
    return time.perf_counter()


def seconds_of(call: Call, device: torch.device | None = None) -> float:
    """One call, with all that it has put on a GPU."""
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start


def median_seconds(call: Call, calls: int, warm_up: int = 0, device: torch.device | None = None) -> float:
    """Of `calls` calls, after `warm_up` that do not count."""
    for _ in range(warm_up):
        call()
    return statistics.median(seconds_of(call, device) for _ in range(calls))


def best_seconds(
    call: Call, calls: int = 5, at_least: float = 0.0, warm_up: int = 0, device: torch.device | None = None
) -> float:
    """The quickest of `calls` calls, or of up to 100 until they took `at_least` seconds together."""
    for _ in range(warm_up):
        call()
    taken: list[float] = []
    while len(taken) < calls or (sum(taken) < at_least and len(taken) < 100):
        taken.append(seconds_of(call, device))
    return min(taken)


def take_turns(calls: Mapping[str, Call], turns: int) -> dict[str, float]:
    """The median seconds of each call, all called in turn `turns` times."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            seconds[name].append(seconds_of(call))
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def samples_per_second(step: Call, samples: int, steps: int = 10, warm_up: int = 2) -> float:
    """Median throughput of `step()`, a whole training step on `samples` samples in memory, after `warm_up` calls."""
    return samples / median_seconds(step, steps, warm_up)
