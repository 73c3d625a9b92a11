"""What a precision plan is made from: samples to plan on, others to check it on, and targets where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from halfwave.certificates.samples import Sample, Samples, call, each_sample
from halfwave.data import Dataset, Split, open_dataset
from halfwave.errors import InputError
from halfwave.models import trial_run

Data = Samples | tuple[Tensor, Tensor] | str | Path | Dataset | Split
"""Inputs; or inputs and targets; or a dataset, one of its splits, or its file."""


@dataclass(frozen=True)
class PlanningData:
    """Samples of two kinds, and the targets of those held out (None where they are not known)."""

    planned_on: list[Sample]
    held_out: list[Sample]
    targets: Tensor | None

    @property
    def apart(self) -> bool:
        """Whether there were enough samples to hold some out."""
        return self.planned_on is not self.held_out


def read_planning_data(data: Data, count: int, held_out: int) -> PlanningData:
    """`count` samples to plan on and up to `held_out` others; of a dataset the former train, the latter test ones."""
    if count < 1 or held_out < 1:
        raise InputError(f"samples and held_out must be at least 1, got {count} and {held_out}")
    if isinstance(data, str | Path | Dataset):
        opened = data if isinstance(data, Dataset) else open_dataset(data)
        tested = opened.test[: min(held_out, len(opened.test))]
        train = opened.train[: min(count, len(opened.train))][0]
        return PlanningData(_checked(train), _checked(tested[0]), tested[1])
    pair = data[: min(count + held_out, len(data))] if isinstance(data, Split) else _pair(data)
    if pair is None:
        return _cut(_checked(data), None, count, held_out)  # type: ignore[arg-type]
    x, y = pair
    if len(x) != len(y):
        raise InputError(f"{len(x)} inputs and {len(y)} targets: expected as many")
    return _cut(_checked(x), y, count, held_out)


def _pair(data: object) -> tuple[Tensor, Tensor] | None:
    """Inputs and targets: a tuple of two tensors, as a list of tensors is samples."""
    if isinstance(data, tuple) and len(data) == 2:
        x, y = data
        return (x, y) if isinstance(x, Tensor) and isinstance(y, Tensor) else None
    return None


def _checked(x: Samples) -> list[Sample]:
    if isinstance(x, Tensor) and (x.ndim < 3 or not x.is_floating_point()):
        raise InputError(f"data has shape {tuple(x.shape)}, {x.dtype}: expected fields (samples, channels, *grid)")
    samples = list(each_sample(x))
    if not samples:
        raise InputError("data hold no sample: there is nothing to plan for")
    return samples


def _cut(samples: list[Sample], targets: Tensor | None, count: int, held_out: int) -> PlanningData:
    # Of few samples half are held out; of one there is nothing to hold out.
    first = min(count, max(1, len(samples) // 2))
    if len(samples) == 1:
        return PlanningData(samples, samples, targets)
    rest = slice(first, first + held_out)
    return PlanningData(samples[:first], samples[rest], None if targets is None else targets[rest])


@torch.no_grad()
def measure_test_error(model: nn.Module, samples: Sequence[Sample], targets: Tensor) -> float:
    """Mean of ||f(x) - y|| / ||y|| over the samples whose target is not 0, as the model computes now."""
    with trial_run(model), torch.compiler.set_stance("force_eager"):
        answers = [call(model, sample, Tensor.float)[0].double() for sample in samples]
    pairs = [(answer, y.double()) for answer, y in zip(answers, targets, strict=True) if y.any()]
    errors = [float((answer - y).norm() / y.norm()) for answer, y in pairs]
    if not errors:
        raise InputError("all targets are zero: a relative error is not defined")
    return sum(errors) / len(errors)
