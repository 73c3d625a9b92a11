"""Relative L2 and H1 errors of a model on a split, in float32, at the split's resolution or a coarser one.

On point clouds L2 alone, the mean over geometries: H1 is not defined there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from halfwave.data import Split
from halfwave.errors import InputError
from halfwave.training.cloud_samples import CloudSamples
from halfwave.training.clouds import Inputs, Targets
from halfwave.training.losses import Loss, build_cloud_loss, build_loss

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


class Samples(Protocol):
    """Pairs that can be counted and picked: a `halfwave.data.Split`, one in memory, or `CloudSamples`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> tuple[Inputs, Targets]: ...


class InMemory:
    """A split read once: x and y as two tensors."""

    def __init__(self, split: Split) -> None:
        self.x, self.y = split[:]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def evaluate(
    model: nn.Module,
    split: Samples,
    metadata: Mapping[str, Any] | None = None,
    *,
    batch_size: int = 8,
    resolution: int | None = None,
) -> dict[str, float]:
    """Mean errors {"l2", "h1"} of `model` (from data units to data units, such as an `Operator`).

    `metadata` is the dataset's (H1 follows its domain); `resolution` asks for a coarser grid than the split's.
    Of an `Operator` on clouds give `CloudSamples(split, operator.encoder)`; the errors are {"l2"} then.
    """
    sums = sum_errors(model, split, range(len(split)), metadata, batch_size, resolution)
    return {name: value / len(split) for name, value in sums.items()}


@torch.no_grad()
def sum_errors(
    model: nn.Module,
    split: Samples,
    indices: range,
    metadata: Mapping[str, Any] | None,
    batch_size: int,
    resolution: int | None = None,
) -> dict[str, float]:
    """Sums of the per-sample errors over some samples: what one of several processes adds."""
    losses = reported_losses(split, metadata)
    device = next(model.parameters()).device
    sums = dict.fromkeys(losses, 0.0)
    was_training = model.training
    model.eval()
    # Eager: a compiled model would be compiled again for evaluation, which takes longer than it saves.
    with torch.compiler.set_stance("force_eager"):
        for start in range(0, len(indices), batch_size):
            batch = split[list(indices[start : start + batch_size])]
            x, y = (value.to(device) for value in (batch if resolution is None else _coarser(batch, resolution)))
            prediction = model(x)
            for name, loss in losses.items():
                sums[name] += float(loss.per_sample(prediction, y).double().sum())
    model.train(was_training)
    return sums


def reported_losses(split: Samples, metadata: Mapping[str, Any] | None) -> dict[str, Loss]:
    """The errors that are reported on a split."""
    if isinstance(split, CloudSamples):
        return {"l2": build_cloud_loss("l2")}
    return {name: build_loss(name, metadata) for name in ("l2", "h1")}


def _coarser(batch: tuple[Inputs, Targets], resolution: int) -> tuple[Tensor, Tensor]:
    x, y = batch
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise InputError(f"test resolution {resolution} is for fields on a grid: point clouds have none")
    return resample(x, resolution), resample(y, resolution)


def resample(fields: Tensor, resolution: int | None) -> Tensor:
    """Fields (B, C, *grid) with `resolution` points along their first axis and the others in proportion.

    Every k-th point where that fits, which keeps exact values (and two-valued coefficients two-valued); linear
    interpolation elsewhere. A finer grid than the data's is refused: there is no truth on it.
    """
    grid = tuple(fields.shape[2:])
    if resolution is None or resolution == grid[0]:
        return fields
    if not 0 < resolution < grid[0]:
        raise InputError(f"test resolution {resolution} is finer than the data: expected 1 to {grid[0]}")
    target = tuple(max(1, round(n * resolution / grid[0])) for n in grid)
    if all(n % m == 0 for n, m in zip(grid, target, strict=True)):
        steps = (slice(None, None, n // m) for n, m in zip(grid, target, strict=True))
        return fields[(slice(None), slice(None), *steps)].contiguous()
    return functional.interpolate(fields, size=target, mode=_LINEAR[len(grid)], align_corners=False)
