"""Relative L2 and H1 errors on a domain, in float32 whatever the format of the prediction.

    L2:  ||p - y|| / ||y||,              ||u||^2 = sum over points and channels of w u^2
    H1:  ||p - y||_1 / ||y||_1,          ||u||_1^2 = ||u||^2 + ||∇u||^2

Norms are per sample and the loss is their mean over the batch; weights w and gradient are the domain's. With one
channel on a unit box these are neuraloperator's ``LpLoss(p=2)`` and ``H1Loss`` with ``reduction="mean"``. A constant
factor of w cancels, so quadrature weights, cell areas and their normalised forms all give the same figure.

Errors have no units: a field is divided by a power of two near its largest value before squares are summed, so that
fields from 1e-30 to 1e30 give the same numbers, bit for bit where the factor between them is a power of two.

A relative error says nothing about a target that is zero, or zero but for rounding. The size of a target is max|y|, in
its own units. It counts as zero when its size is not above a `floor`: `ZERO` times the root mean square of the sizes of
its split, which is what float32 does not resolve at the scale of the data. Such samples have error 0 and no gradient,
are left out of every mean and counted apart. The rule has no units: data times any factor have the same zero targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from halfwave.domains import Domain
from halfwave.errors import InputError
from halfwave.models import unpack_points
from halfwave.training.batches import Samples, part_of
from halfwave.training.clouds import Pressures, Targets
from halfwave.training.parts import WHOLE, FieldPart

LOSSES = ("l2", "h1")
ZERO = torch.finfo(torch.float32).eps
_LOOK = 8
"""Samples, spread over a split, from which the trainer takes the scale of its loss."""


class Loss(Protocol):
    """What the trainer asks of a loss: one number per sample. The target is a tensor, or that of a batch of clouds."""

    def per_sample(self, prediction: Tensor, target: Any) -> Tensor: ...

    def counted(self, target: Any) -> Tensor:
        """Whether the target of each sample is none that counts as zero, (B,)."""
        ...

    def __call__(self, prediction: Tensor, target: Any) -> Tensor:
        """The mean over samples."""
        return self.per_sample(prediction, target).mean()


@dataclass(frozen=True)
class RelativeL2(Loss):
    """Relative L2 error of fields (B, C, *grid), or of values on points (B, C, P); without a domain all count alike."""

    domain: Domain | None = None
    floor: float = 0.0
    part: FieldPart = WHOLE

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        weights = None if self.domain is None else self.part.weights(self.domain, tuple(target.shape[2:]))
        return _relative(prediction, target, lambda u: self.part.norm([u], weights), self.floor, self.part)

    def counted(self, target: Tensor) -> Tensor:
        return self.part.largest(target) > self.floor


@dataclass(frozen=True)
class RelativeH1(Loss):
    """Relative H1 error of fields (B, C, *grid)."""

    domain: Domain
    floor: float = 0.0
    part: FieldPart = WHOLE

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        domain, part = self.domain, self.part
        weights = part.weights(domain, tuple(target.shape[2:]))
        norm = lambda u: part.norm([u, *part.gradient(domain, u)], weights)  # noqa: E731
        return _relative(prediction, target, norm, self.floor, part)

    def counted(self, target: Tensor) -> Tensor:
        return self.part.largest(target) > self.floor


@dataclass(frozen=True)
class CloudL2(Loss):
    """Relative L2 error of each geometry of a batch of point clouds; with `by_area` each point counts by its area.

    There is no H1 on a cloud: its points have no neighbours along an axis to take a difference with.
    """

    by_area: bool = False
    floor: float = 0.0

    def per_sample(self, prediction: Tensor, target: Pressures) -> Tensor:
        """Errors of shape (B,) from predictions (Σn, 1), packed as the target is."""
        offsets = target.offsets
        parts = zip(*(unpack_points(t, offsets) for t in (prediction, target.values, target.areas)), strict=True)
        return torch.cat([self._error(p, y, areas) for p, y, areas in parts])

    def counted(self, target: Pressures) -> Tensor:
        return sizes_of(target) > self.floor

    def _error(self, prediction: Tensor, values: Tensor, areas: Tensor) -> Tensor:
        weights = areas if self.by_area else None
        if weights is not None and bool((weights < 0).any()):
            raise InputError(f"areas must not be negative, smallest given {float(weights.min()):.3g}")
        return _relative(prediction.T[None], values.T[None], lambda u: WHOLE.norm([u], weights), self.floor)


def build_loss(name: str, domain: Domain, floor: float = 0.0, by_area: bool = False, part: FieldPart = WHOLE) -> Loss:
    """The loss called `name` ("l2" or "h1") on a domain; `by_area` is for clouds, where "l2" is the only one.

    `part` says what is here of each field.
    """
    if name not in LOSSES:
        raise InputError(f"unknown loss {name!r}: expected one of {', '.join(LOSSES)}")
    if domain.has_grid:
        return RelativeL2(domain, floor, part) if name == "l2" else RelativeH1(domain, floor, part)
    if name != "l2":
        raise InputError(f"loss {name!r} is not defined on point clouds: expected l2")
    return CloudL2(by_area, floor)


def sizes_of(target: Targets, part: FieldPart = WHOLE) -> Tensor:
    """max|y| of each sample of a batch, (B,)."""
    if isinstance(target, Tensor):
        return part.largest(target)
    return torch.cat([part.largest(values[None]) for values in unpack_points(target.values, target.offsets)])


def floor_of(sizes: Tensor) -> float:
    """The size up to which a target counts as zero, from the sizes of a split or of a part of it."""
    return ZERO * float(sizes.double().square().mean().sqrt())


def find_floor(samples: Samples, split: str) -> float:
    """`floor_of` a few samples that are spread over a split; InputError when all targets of the split are zero."""
    spread = torch.linspace(0, len(samples) - 1, min(_LOOK, len(samples))).long().unique().tolist()
    rest = (list(range(start, min(start + _LOOK, len(samples)))) for start in range(0, len(samples), _LOOK))
    for indices in (spread, *rest):
        floor = floor_of(sizes_of(samples[indices][1], part_of(samples)))
        if floor > 0:
            return floor
    raise InputError(f"all targets are zero in the {split} split: a relative error is not defined")


def _relative(
    prediction: Tensor,
    target: Tensor,
    norm: Callable[[Tensor], Tensor],
    floor: float,
    part: FieldPart = WHOLE,
) -> Tensor:
    """||p - y|| / ||y|| per sample; a zero target divides by infinity."""
    p, y = _as_fp32(prediction, target)
    size = part.largest(y)
    scale = _power_of_two(size)
    below = torch.where(size > floor, norm(y / _like(scale, y)) * scale, math.inf)
    error = p - y
    scale = _power_of_two(part.largest(error))
    # In place: the difference is needed by nobody else, and this is the moment of a step that holds the most.
    return norm(error.div_(_like(scale, error))) * scale / below


def _power_of_two(size: Tensor) -> Tensor:
    """The power of two in (size, 2 size], or 1 where there is none to speak of; division by it is exact."""
    mantissa, _ = torch.frexp(size)
    usable = (size > 0) & (size < math.inf)
    return torch.where(usable, size / mantissa, torch.ones_like(size))


def _like(scale: Tensor, u: Tensor) -> Tensor:
    return scale.reshape(-1, *[1] * (u.ndim - 1))


def _as_fp32(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if prediction.shape != target.shape:
        given, accepted = tuple(prediction.shape), tuple(target.shape)
        raise InputError(f"a prediction of shape {given}: expected that of its target, {accepted}")
    # Half-precision sums over a grid overflow (fp16) or stagnate (bf16): never take a norm in them.
    wide = torch.float64 if torch.float64 in (prediction.dtype, target.dtype) else torch.float32
    return prediction.to(wide), target.to(wide)
