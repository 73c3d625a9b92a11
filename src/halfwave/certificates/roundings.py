"""Roundings: which of the points that taps found a policy rounds, to which format, and how large those errors are.

An error of rounding to nearest is taken as uniform between the neighbours: mean 0 and variance ulp(z)²/12, with
ulp(z) = 2^(max(e, emin) - p + 1) in the binade e of z; values that round to zero lose themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from halfwave.certificates.taps import BINADES, LOWEST, RoundingPoint
from halfwave.numerics import Arithmetic, Format
from halfwave.precision import Policy, Resolved

# ∫ z² over [1, 2): what a value of the binade 2^0 loses on average where it rounds to zero.
_MEAN_SQUARE = 7 / 3


@dataclass(frozen=True)
class Holder:
    """A layer with a policy, as far as its roundings go.

    Attributes:
        name: in the neural operator, by which a policy knows it.
        masters: dtype of its weights.
        device: where it computes.
        fft: whether its transform is an FFT in an arithmetic; None for layers without one.
    """

    name: str
    masters: torch.dtype
    device: torch.device
    fft: Callable[[Arithmetic], bool] | None = None

    def resolved(self, policy: Policy) -> Resolved:
        return policy.of(self.name).on(self.device, self.masters)


@dataclass(frozen=True)
class Rounding:
    """What a point is rounded to, and whether products with it are wide: then the scale of a matrix is not rounded."""

    format: Format
    wide: bool


def roundings(points: Sequence[RoundingPoint], holders: Mapping[str, Holder], policy: Policy) -> list[Rounding | None]:
    """What rounds each point; None where nothing does, or where the value is in the format already."""
    resolved = {name: holder.resolved(policy) for name, holder in holders.items()}
    held: list[Format | None] = []
    found: list[Rounding | None] = []
    for point in points:
        roles = resolved[point.module]
        format = _format_at(point, roles, holders[point.module])
        before = _widest([held[n] for n in point.after])
        if format is None or (before is not None and before.precision <= format.precision):
            found.append(None)
            held.append(before)
        else:
            found.append(Rounding(format, getattr(roles, point.role).how == "wide"))
            held.append(format)
    return found


def _format_at(point: RoundingPoint, roles: Resolved, holder: Holder) -> Format | None:
    """What a point rounds to if the value is not there yet."""
    arith: Arithmetic = getattr(roles, point.role)
    native = arith.compute is arith.storage and not arith.format.emulated
    if point.role == "weights" and point.kind == "load":
        return _operand_format(arith, roles.contraction)
    if point.kind in ("product", "matrix") and holder.fft is not None and holder.fft(arith):
        return None
    if point.kind == "cast":
        return None if arith.format.emulated else arith.format
    if point.kind == "product":
        # Between two axes of a transform the parts of the next product round; the contraction's are only added up.
        by_parts = arith.format.parts > 1 and point.role != "contraction"
        return arith.format if native or by_parts else None
    if point.kind == "settle":
        return arith.format if native or arith.format.emulated else None
    return arith.format


def _operand_format(weights: Arithmetic, contraction: Arithmetic) -> Format:
    """Weights are rounded to their format, and to that of the contraction where products are taken in it."""
    if contraction.how == "native" and contraction.format.precision < weights.format.precision:
        return contraction.format
    return weights.format


def _widest(formats: Sequence[Format | None]) -> Format | None:
    """The format that holds all of these values; None where one of them has not been rounded."""
    known = [format for format in formats if format is not None]
    return max(known, key=lambda format: format.precision) if known and len(known) == len(formats) else None


@lru_cache(maxsize=64)
def variances(format: Format) -> Tensor:
    """The variance of a rounding error in each binade of the taps' histograms."""
    e = torch.arange(LOWEST, LOWEST + BINADES, dtype=torch.float64)
    ulp = torch.exp2(e.clamp(min=format.min_exponent) - format.precision + 1)
    variance = torch.minimum(ulp.square() / 12, _MEAN_SQUARE * torch.exp2(2 * e))
    variance[0] = 0.0
    return variance
