"""Stopwatch: how long operators take on this machine, each measured once on tensors of its own shapes.

The model is not run. An operator is: by itself, on tensors with the shapes, strides and dtypes that the plan has for
it, until a few calls took some milliseconds. What the count leaves out (Python between the operators) is measured as
the time of a call on a tensor of one number. So a prediction is a sum of small measurements: a training step that takes
minutes or does not fit is predicted in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from halfwave.measure import best_seconds
from halfwave.numerics import describe_cpu
from halfwave.planner.op_costs import OperatorCall, TensorSpec

# Arguments larger than this are not made: the operator then takes its bytes over the measured rate of copies.
_LARGEST_BYTES = 192 << 20
_SECONDS = 4e-3
_CALLS = 3


class Stopwatch:
    """Measures on the given device, the CPU by default, and remembers."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self._known: dict[Any, float] = {}
        self.bytes_per_second = self._copy_rate()
        self.call_seconds = self._call_seconds()

    def describe(self) -> str:
        where = describe_cpu() if self.device.type == "cpu" else torch.cuda.get_device_name(self.device)
        return f"operators measured on this machine ({where})"

    def seconds(self, operator: OperatorCall) -> float:
        if operator.is_view:
            return self.call_seconds
        key = (operator.function, repr(operator.arguments), repr(operator.options))
        if key not in self._known:
            self._known[key] = self._measure(operator)
        return self._known[key]

    def _measure(self, operator: OperatorCall) -> float:
        specs = [leaf for leaf in tree_leaves((operator.arguments, operator.options)) if isinstance(leaf, TensorSpec)]
        if sum(_extent(spec) * spec.dtype.itemsize for spec in specs) > _LARGEST_BYTES:
            return operator.nbytes / self.bytes_per_second + self.call_seconds
        arguments, options = tree_map(self._real, (operator.arguments, operator.options))
        return self._best(lambda: operator.function(*arguments, **options))

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return self.device if value.type == "meta" else value
        if not isinstance(value, TensorSpec):
            return value
        flat = torch.zeros(_extent(value), dtype=value.dtype, device=self.device)
        if value.dtype.is_floating_point:
            flat.uniform_(-1.0, 1.0)
        return flat.as_strided(value.shape, value.stride)

    def _best(self, call: Callable[[], Any]) -> float:
        return best_seconds(call, _CALLS, _SECONDS, warm_up=1, device=self.device)

    def _copy_rate(self) -> float:
        source = torch.zeros(1 << 23, device=self.device)
        target = torch.empty_like(source)
        return 2.0 * source.nbytes / self._best(lambda: target.copy_(source))

    def _call_seconds(self) -> float:
        number = torch.zeros(1, device=self.device)
        return self._best(lambda: number.view(1, 1))


def _extent(spec: TensorSpec) -> int:
    """Entries from the first to the last that a strided tensor reaches."""
    if 0 in spec.shape:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(spec.shape, spec.stride, strict=True))
