"""Batches: where samples come from, in which order, which of them are a process's own, and what it is handed.

The order is a function of the seed and the epoch alone, so that any step can be found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from halfwave.data import Split, Windows
from halfwave.domains import Domain
from halfwave.measure import tensors_of
from halfwave.training.clouds import Inputs, Targets
from halfwave.training.parts import WHOLE, FieldPart


class Samples(Protocol):
    """A `halfwave.data.Split`, one in memory, or `CloudSamples`: pairs that can be counted and picked, on a domain."""

    @property
    def domain(self) -> Domain: ...

    @property
    def windows(self) -> Windows | None:
        """Of samples that are spans of trajectories, those."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> tuple[Inputs, Targets]: ...

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: live data have other samples in each."""
        ...


class InMemory:
    """A split read once: x and y as two tensors. `part` is what it has of each field."""

    def __init__(self, split: Split, part: FieldPart = WHOLE) -> None:
        self.domain, self.windows, self.part = split.domain, split.windows, part
        self.x, self.y = split[:]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]

    def set_epoch(self, epoch: int) -> None:
        return


class InPieces:
    """A split of which every field is a piece, read when it is asked for."""

    def __init__(self, split: Split, part: FieldPart) -> None:
        self.split, self.part = split, part

    @property
    def domain(self) -> Domain:
        return self.split.domain

    @property
    def windows(self) -> Windows | None:
        return self.split.windows

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        return self.split[index]

    def set_epoch(self, epoch: int) -> None:
        self.split.set_epoch(epoch)


def held(split: Split) -> Samples:
    """A split read once; of windows of trajectories every state once, and not once for every window that it is in."""
    return InMemory(split) if split.windows is None else split.in_memory()


def part_of(samples: Samples) -> FieldPart:
    """What samples have of each field: all, unless they say otherwise."""
    return getattr(samples, "part", WHOLE)


def epoch_order(seed: int, epoch: int, samples: int) -> Tensor:
    """A permutation of the samples, the same on every rank and in every resumed run."""
    return torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(samples))


def cut(order: Tensor, batch_size: int) -> list[Tensor]:
    """Consecutive batches; the last may be smaller."""
    return list(order.split(batch_size))


def share(batch: Tensor, rank: int, ranks: int) -> Tensor:
    """The samples of a batch that belong to one of `ranks`: without overlap, together all, empty for some if few."""
    return batch[rank::ranks]


@dataclass(frozen=True)
class Batch:
    """One process's share of a batch; `weight` 0 marks a sample that only fills an empty share."""

    x: Inputs
    y: Targets
    weight: float = 1.0

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: torch.device) -> Batch:
        return Batch(self.x.to(device), self.y.to(device), self.weight)

    def tensors(self) -> list[Tensor]:
        return [*tensors_of(self.x), *tensors_of(self.y)]
