"""Samples as the trainer asks for them: pairs that can be counted and picked, on a domain."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from halfwave.data import Split
from halfwave.domains import Domain
from halfwave.training.clouds import Inputs, Targets


class Samples(Protocol):
    """A `halfwave.data.Split`, one in memory, or `CloudSamples`."""

    @property
    def domain(self) -> Domain: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> tuple[Inputs, Targets]: ...

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: live data have other samples in each."""
        ...


class InMemory:
    """A split read once: x and y as two tensors."""

    def __init__(self, split: Split) -> None:
        self.domain = split.domain
        self.x, self.y = split[:]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]

    def set_epoch(self, epoch: int) -> None:
        return
