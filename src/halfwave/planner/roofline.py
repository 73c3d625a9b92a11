"""Seconds of an operator: the slower of its products and its memory traffic, and what every call costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from halfwave.numerics import FORMATS
from halfwave.planner.hardware_table import Device
from halfwave.planner.op_costs import OperatorCall

_NAMES = {format.dtype: name for name, format in FORMATS.items() if format.dtype is not None and not format.emulated}


class Clock(Protocol):
    """Whatever can say how long an operator takes."""

    def describe(self) -> str: ...

    def seconds(self, operator: OperatorCall) -> float: ...


@dataclass(frozen=True)
class Roofline:
    """max(flops / peak rate, bytes / bandwidth) + overhead, with the rates of a data sheet."""

    device: Device

    def describe(self) -> str:
        return f"roofline of {self.device.name} ({self.device.source})"

    def seconds(self, operator: OperatorCall) -> float:
        if operator.is_view:
            return 0.0
        compute = operator.flops / self._rate(operator.dtype)
        return max(compute, operator.nbytes / self.device.bandwidth) + self.device.overhead

    def _rate(self, dtype: torch.dtype) -> float:
        if _NAMES.get(dtype) in self.device.half_formats:
            return self.device.half
        return self.device.fp32 / 2 if dtype is torch.float64 else self.device.fp32
