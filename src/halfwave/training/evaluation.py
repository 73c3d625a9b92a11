"""Relative L2 and H1 errors of a model on a split, in float32, at the split's resolution or a coarser one.

Means are over the samples whose target is not zero (see `losses`). On point clouds L2 alone, the mean over geometries:
H1 is not defined there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.data import Windows
from halfwave.domains import Domain
from halfwave.errors import InputError, described
from halfwave.models import computing_in
from halfwave.precision import Policy
from halfwave.training.batches import Batch, Samples, part_of
from halfwave.training.clouds import Targets
from halfwave.training.in_time import PerStep
from halfwave.training.losses import LOSSES, Loss, build_loss, floor_of, sizes_of
from halfwave.training.parts import WHOLE, FieldPart

_SIZE = "size"


@dataclass(frozen=True)
class Errors:
    """Mean errors by name, over all samples but those with a zero target."""

    means: dict[str, float]
    zero_targets: int


def evaluate(
    model: nn.Module, split: Samples, *, batch_size: int = 8, resolution: int | None = None
) -> dict[str, float]:
    """Mean errors {"l2", "h1"} of `model` (from data units to data units, such as an `Operator`).

    `resolution` asks for a coarser grid than the split's. Of an `Operator` on clouds give
    `CloudSamples(split, operator.encoder)`; the errors are {"l2"} then. Where targets are zero, their number is beside
    the errors as "zero_targets"; InputError when all are.
    """
    _check_given(model, split, batch_size)
    if resolution is not None and not isinstance(resolution, int):
        raise InputError(f"resolution is {described(resolution)}: expected a number of points")
    try:
        found = mean_errors(sample_errors(model, split, range(len(split)), batch_size, resolution))
    except ValueError as error:  # of a model that is given what it does not take
        raise InputError(str(error)) from error
    return found.means | ({"zero_targets": found.zero_targets} if found.zero_targets else {})


@torch.no_grad()
def rounding_of(model: nn.Module, split: Samples, policy: str | Policy | None = None, *, batch_size: int = 8) -> float:
    """By how much rounding moves the answers: the mean over samples of ||y_policy - y_full|| / ||y_full||.

    The weights are the same, `policy` is the model's own by default. 0 where it rounds nothing below fp32.
    """
    _check_given(model, split, batch_size)
    loss, device = build_loss("l2", split.domain), next(model.parameters()).device
    total = 0.0
    model.eval()
    for start in range(0, len(split), batch_size):
        batch = Batch(*split[list(range(start, min(start + batch_size, len(split))))]).to(device)
        with nullcontext() if policy is None else computing_in(model, policy):
            rounded = model(batch.x)
        with computing_in(model, "full"):
            exact = model(batch.x)
        total += float(loss.per_sample(rounded, _as_target(exact, batch.y)).double().sum())
    return total / len(split)


def _check_given(model: Any, split: Any, batch_size: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"the model is {described(model)}: expected a module, such as halfwave.load gives")
    if not all(hasattr(split, name) for name in ("domain", "__len__", "__getitem__")):
        raise InputError(f"the samples are {described(split)}: expected a split, such as open_any(path).test")
    if not isinstance(batch_size, int) or batch_size < 1:
        raise InputError(f"batch_size is {described(batch_size)}: expected a number of at least 1")


def _as_target(answer: Tensor, target: Targets) -> Targets:
    return answer if isinstance(target, Tensor) else replace(target, values=answer)


@torch.no_grad()
def sample_errors(
    model: nn.Module,
    split: Samples,
    indices: range,
    batch_size: int,
    resolution: int | None = None,
    passes: int = 0,
) -> dict[str, Tensor]:
    """Errors of some samples and the sizes of their targets, each (len(split),), float64, 0 at all other samples.

    What one of several processes knows: theirs add up to those of the whole split. It makes at least `passes` forward
    passes, the last ones for nothing: a model that is in pieces exchanges them in every pass, with every process.
    """
    part = part_of(split)
    losses = reported_losses(split.domain, part, split.windows)
    device = next(model.parameters()).device
    found = {name: torch.zeros(len(split), dtype=torch.float64) for name in (*losses, _SIZE)}
    was_training = model.training
    model.eval()
    # Eager: a compiled model would be compiled again for evaluation, which takes longer than it saves.
    with torch.compiler.set_stance("force_eager"):
        for start in range(0, max(len(indices), passes * batch_size), batch_size):
            rows = list(indices[start : start + batch_size])
            batch = _coarser(Batch(*split[rows or [0]]), split.domain, resolution).to(device)
            prediction = model(batch.x)
            if not rows:
                continue
            for name, loss in losses.items():
                found[name][rows] = loss.per_sample(prediction, batch.y).double().cpu()
            found[_SIZE][rows] = sizes_of(batch.y, part).double().cpu()
    model.train(was_training)
    return found


def mean_errors(found: Mapping[str, Tensor]) -> Errors:
    """The means of a whole split's errors; correctly rounded, so that no order of the samples matters."""
    sizes = found[_SIZE]
    counted = sizes > floor_of(sizes)
    number = int(counted.sum())
    if number == 0:
        raise InputError("all targets are zero: a relative error is not defined")
    means = {name: math.fsum(values[counted].tolist()) / number for name, values in found.items() if name != _SIZE}
    return Errors(means, len(sizes) - number)


def reported_losses(domain: Domain, part: FieldPart = WHOLE, windows: Windows | None = None) -> dict[str, Loss]:
    """The errors that are reported on a domain; of windows in time their means over the steps."""
    losses = {name: build_loss(name, domain, part=part) for name in (LOSSES if domain.has_grid else ("l2",))}
    if windows is None:
        return losses
    return {name: PerStep(loss, windows.source.channels) for name, loss in losses.items()}


def _coarser(batch: Batch, domain: Domain, resolution: int | None) -> Batch:
    if resolution is None:
        return batch
    if not isinstance(batch.x, Tensor) or not isinstance(batch.y, Tensor):
        raise InputError(f"test resolution {resolution} is for fields on a grid: point clouds have none")
    return Batch(resample(batch.x, domain, resolution), resample(batch.y, domain, resolution))


def resample(fields: Tensor, domain: Domain, resolution: int) -> Tensor:
    """Fields (B, C, *grid) with `resolution` points along their first axis and the others in proportion.

    A finer grid than the data's is refused: there is no truth on it.
    """
    grid = tuple(fields.shape[2:])
    if not 0 < resolution <= grid[0]:
        raise InputError(f"test resolution {resolution} is finer than the data: expected 1 to {grid[0]}")
    return domain.resample(fields, tuple(max(1, round(n * resolution / grid[0])) for n in grid))
