"""Whose time it is: the events of torch's profiler by part, by module and by kernel.

Every module that computes, and every stage of a spectral convolution, is a named range in the forward pass; a node of
the backward pass carries the sequence number of the forward operator that made it, and so belongs to that operator's
module. Each event counts with its own time, without that of the events inside it, so that shares add up to 1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from halfwave.measure.ranges import is_spectral

PROFILE_PARTS = (
    "transforms",
    "contraction",
    "rest of spectral conv",
    "pointwise",
    "copies and casts",
    "loss",
    "update",
    "other",
)
PYTHON = "(Python and dispatch)"

RANGE = "halfwave:"
_BACKWARD = "autograd::engine::evaluate_function"
_COPIES = frozenset(f"aten::{op}" for op in ("copy_", "_to_copy", "to", "clone", "contiguous", "cat", "fill_", "zero_"))
_STAGES = {"forward_transform": "transforms", "inverse_transform": "transforms", "contraction": "contraction"}


@dataclass(frozen=True)
class _Place:
    """Where an event belongs: what kind of range (module, a stage, loss, update), of which module, in which pass."""

    kind: str
    module: str
    backward: bool


class ProfileTimes:
    """Own times of the profiler's events, each in its place."""

    def __init__(self, events: Iterable[Any], model: nn.Module, cuda: bool, steps: int) -> None:
        self.events = list(events)
        self.steps, self.cuda = steps, cuda
        self.spectral = {name for name, module in model.named_modules() if is_spectral(module)}
        self._makers, self._numbers = _makers(self.events)
        self._places: dict[int, _Place] = {}
        self.rows = [(e.name, self._place(e), self._own(e)) for e in self.events if not _on_device(e)]

    @property
    def total(self) -> float:
        return sum(seconds for _, _, seconds in self.rows)

    @property
    def spectral_share(self) -> float:
        """What the spectral convolutions take, their copies included."""
        inside = sum(seconds for _, place, seconds in self.rows if place.module in self.spectral)
        return inside / self.total if self.total > 0 else 0.0

    def parts(self) -> list[dict[str, Any]]:
        sums: dict[str, float] = dict.fromkeys(PROFILE_PARTS, 0.0)
        for name, place, seconds in self.rows:
            sums[self._part(name, place)] += seconds
        return [self._row(part, sums[part]) for part in PROFILE_PARTS]

    def modules(self) -> list[dict[str, Any]]:
        """Forward and backward seconds of each module, without those of the modules inside it."""
        passes: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for _, place, seconds in self.rows:
            label = place.module or ("(model)" if place.kind == "module" else f"({place.kind or 'rest'})")
            passes[label][place.backward] += seconds
        rows = [
            {**self._row(name, sum(both)), "forward": both[0], "backward": both[1]} for name, both in passes.items()
        ]
        return sorted(rows, key=lambda row: -row["seconds"])

    def kernels(self) -> list[dict[str, Any]]:
        """Seconds and calls of each kernel (on a CPU: operator) per step."""
        sums: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        if self.cuda:
            found = [(k.name, k.duration * 1e-6 / self.steps) for e in self.events for k in e.kernels]
        else:
            found = [(name if "::" in name and not _is_frame(name) else PYTHON, t) for name, _, t in self.rows]
        for name, seconds in found:
            sums[name] += seconds
            calls[name] += 1
        return [
            {**self._row(name, seconds), "calls": None if name == PYTHON else calls[name] / self.steps}
            for name, seconds in sums.most_common()
        ]

    def _row(self, name: str, seconds: float) -> dict[str, Any]:
        return {"name": name, "seconds": seconds, "share": seconds / self.total if self.total > 0 else 0.0}

    def _own(self, event: Any) -> float:
        micro = event.self_device_time_total if self.cuda else event.self_cpu_time_total
        return micro * 1e-6 / self.steps

    def _place(self, event: Any) -> _Place:
        known = self._places.get(id(event))
        if known is None:
            known = self._places[id(event)] = self._find_place(event)
        return known

    def _find_place(self, event: Any) -> _Place:
        if event.name.startswith(RANGE):
            kind, _, module = event.name.removeprefix(RANGE).partition(":")
            # A block that is computed again in the backward pass is the backward pass's time.
            outer = event.cpu_parent
            return _Place(kind, module, outer is not None and self._place(outer).backward)
        if event.name.startswith("Optimizer."):
            return _Place("update", "", False)
        if event.name.startswith(_BACKWARD):
            if "AccumulateGrad" in event.name and event.cpu_parent is None:
                return _Place("gradients", "", True)
            maker = self._maker(event.fwd_thread or event.thread, event.sequence_nr)
            if maker is not None:
                place = self._place(maker)
                return _Place(place.kind, place.module, True)
        parent = event.cpu_parent
        if parent is None:
            return _Place("", "", event.name.startswith(_BACKWARD))
        return self._place(parent)

    def _maker(self, thread: int, number: int) -> Any:
        """The operator that made a node; one that makes several (views of its inputs first) has the number before."""
        numbers = self._numbers.get(thread, [])
        position = bisect_right(numbers, number)
        return self._makers[thread][numbers[position - 1]] if number >= 0 and position else None

    def _part(self, name: str, place: _Place) -> str:
        if place.kind in ("loss", "update"):
            return place.kind
        if name in _COPIES:
            return "copies and casts"
        if place.kind in _STAGES:
            return _STAGES[place.kind]
        if place.module in self.spectral:
            return "rest of spectral conv"
        return "pointwise" if place.module else "other"


def _makers(events: list[Any]) -> tuple[dict[int, dict[int, Any]], dict[int, list[int]]]:
    """By thread: the operator that made each node, by the node's number, and the numbers in order.

    Operators are recorded with the number of the next node. Of several with one number the last made the node, as it
    went up after it. Numbers only grow; a smaller one is that of a node that is being evaluated.
    """
    makers: dict[int, dict[int, Any]] = defaultdict(dict)
    numbers: dict[int, list[int]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.time_range.start):
        number, known = event.sequence_nr, numbers[event.thread]
        if number < 0 or (known and number < known[-1]) or _evaluates(event, number):
            continue
        if not known or number > known[-1]:
            known.append(number)
        makers[event.thread][number] = event
    return makers, numbers


def _evaluates(event: Any, number: int) -> bool:
    """Does the event belong to the evaluation of the node with this number?"""
    while event is not None:
        if event.name.startswith(_BACKWARD) and event.sequence_nr == number:
            return True
        event = event.cpu_parent
    return False


def _is_frame(name: str) -> bool:
    """The engine's own frames around a node: their own time is dispatch."""
    return name.startswith("autograd::")


def _on_device(event: Any) -> bool:
    return event.device_type != torch.autograd.DeviceType.CPU
