"""Mollifiers: weights w(|x - y|²) that fall from `scale` at the centre to 0 at the radius, as in neuraloperator.

They are functions of t = |x - y|² / r²; a neighbourhood weighted so has no jump where a point enters it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor


def bump(t: Tensor) -> Tensor:
    """e · exp(-1 / (1 - t²)), with neuraloperator's 1e-7 in the denominator."""
    return math.e * torch.exp(-1 / (1 - t.clip(0, 1) ** 2 + 1e-7))


def half_cos(t: Tensor) -> Tensor:
    """(cos(π t) + 1) / 2."""
    return 0.5 * torch.cos(torch.pi * t) + 0.5


def quadr(t: Tensor) -> Tensor:
    """1 - 2 t² up to t = 1/2, then 2 (1 - t)²."""
    return torch.where(t < 0.5, 1 - 2 * t**2, 2 * (1 - t) ** 2)


def quartic(t: Tensor) -> Tensor:
    """(1 - t²)²."""
    return (1 - t**2) ** 2


def octic(t: Tensor) -> Tensor:
    """1 - 6 t⁴ + 8 t⁶ - 3 t⁸."""
    return 1 - 6 * t**4 + 8 * t**6 - 3 * t**8


MOLLIFIERS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"bump": bump, "half_cos": half_cos, "quadr": quadr, "quartic": quartic, "octic": octic}
)
