"""Whether a run compiles its model: ``compile=True``, ``False``, or ``"auto"``, which weighs what it would save.

    seconds of an update  ≈  3 (FLOP / rate + calls × time of a call),  FLOP and calls of one forward pass
    compiled where  share saved × updates × seconds of an update  >  5 × seconds of a compilation × policies

Work is counted and nothing is timed: the same settings decide alike, whatever else a machine does. A run that resumes
goes on as its checkpoint says. Short trainings are not even counted: they stay eager, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from halfwave.measure import product_flops
from halfwave.models import MODELS, trial_run
from halfwave.spectral import CPWeight, TTWeight, TuckerWeight
from halfwave.training.batches import Samples
from halfwave.training.config import AUTO, TrainConfig
from halfwave.training.operator import Operator

# Of a CPU with two cores: products of a whole step, an operator of a small one, one compilation, and what it saves of
# an eager step at least (a quarter of large ones, a half of small ones).
_FLOPS_PER_SECOND = 1e11
_SECONDS_PER_CALL = 1e-5
_SECONDS_TO_COMPILE = 60.0
_SHARE_SAVED = 0.25
_CLEARLY = 5.0
# Fewer would have to be long ones, of models that are better off on an accelerator.
_FEWEST_UPDATES = 500
_PASSES = 3


@dataclass(frozen=True)
class ForwardWork:
    """What one sample's way through a model takes: multiplications and additions of products, calls of operators."""

    flops: float
    calls: int

    def saved_seconds(self, samples: int, batches: int, updates: int) -> float:
        """By compiling, in so many updates of so many batches, with so many samples in all."""
        seconds = self.flops * samples / _FLOPS_PER_SECOND + self.calls * batches * _SECONDS_PER_CALL
        return _SHARE_SAVED * _PASSES * seconds * updates


def compiles(config: TrainConfig, operator: Operator, train: Samples, updates: int, device: torch.device) -> bool:
    """What the setting means for this run; `updates` are those of the whole run."""
    if config.compile != AUTO:
        return config.compile is True
    if updates < _FEWEST_UPDATES or not _compilable(config, operator, device):
        return False
    work = count_forward(operator, train)
    policies = len({policy.name for _, policy in config.build_schedule(device.type).phases})
    samples = config.batch_size * config.accumulate / config.processes
    saved = work.saved_seconds(max(1, round(samples)), config.accumulate, updates)
    return saved > _CLEARLY * _SECONDS_TO_COMPILE * policies


def _compilable(config: TrainConfig, operator: Operator, device: torch.device) -> bool:
    """The library's own models on fields, as a whole, on a CPU: what the figures above were taken from.

    Not with weights of low rank: eagerly their contraction runs in tiles that fit a core's cache, which a compiler does
    not make (CP of rank 0.05 at 128x128, mixed: 1.6 times the eager step).
    """
    whole = config.strategy != "fsdp" and config.mesh is None and not config.monitor
    own = operator.encoder is None and config.model in MODELS
    return whole and own and device.type == "cpu" and not any(map(_of_low_rank, operator.modules()))


def _of_low_rank(module: nn.Module) -> bool:
    return isinstance(module, CPWeight | TuckerWeight | TTWeight)


def count_forward(operator: Operator, train: Samples) -> ForwardWork:
    """Of the first train sample; neither the operator nor a random number is moved."""
    with torch.random.fork_rng(devices=[]), trial_run(operator.model), torch.no_grad(), _Counter() as counter:
        operator(train[[0]][0])
    return ForwardWork(counter.flops, counter.calls)


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.flops, self.calls = 0.0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.flops += product_flops(func, args, kwargs or {}, result)
        self.calls += 1
        return result


def missing_compiler() -> str | None:
    """Why nothing can be compiled for a CPU here, in one line; None where it can."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "there is no C++ compiler (g++ or clang++)"
    return None
