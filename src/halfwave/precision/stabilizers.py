"""Stabilizers: what is done to a field before its forward transform so that half precision does not overflow.

The paper's pre-activation table and its ablations (appendix 'Numerical Stability: Pre-FFT Methods'):

| name           | v becomes                                                       |
| -------------- | --------------------------------------------------------------- |
| none           | v                                                               |
| tanh           | tanh v: identity near 0, smooth, at most 1                      |
| hard-clip      | v clipped to [-1, 1]                                            |
| 2-sigma-clip   | v clipped to mean ± 2 standard deviations of its sample         |
| divide-S       | v / S for a fixed S, as ``divide-10`` to ``divide-10000``       |
| normalise      | (v - mean) / standard deviation, per sample and channel         |
| auto           | tanh where a half FFT could overflow, none elsewhere            |
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor

from halfwave.numerics import at_least_fp32

Stabilizer = Callable[[Tensor], Tensor]

NAMES = ("auto", "none", "tanh", "hard-clip", "2-sigma-clip", "divide-S", "normalise")
_DIVIDE = re.compile(r"divide-([0-9]*\.?[0-9]+(?:e[0-9]+)?)")


def check_stabilizer(name: str) -> str:
    """`name` if it is one; ValueError with the accepted names otherwise."""
    if name not in NAMES[:-2] and name != "normalise" and _divisor(name) is None:
        raise ValueError(f"unknown stabilizer {name!r}: expected one of {', '.join(NAMES)} (S a positive number)")
    return name


def get_stabilizer(name: str) -> Stabilizer:
    """The function called `name`, from (B, C, *grid) to the same; ``"auto"`` must be resolved before."""
    check_stabilizer(name)
    if name == "auto":
        raise ValueError("stabilizer 'auto' depends on the backend: resolve it with resolve_stabilizer first")
    divisor = _divisor(name)
    if divisor is not None:
        return lambda v: v / divisor
    return _FUNCTIONS[name]


def resolve_stabilizer(name: str, half_fft: bool) -> str:
    """What ``"auto"`` stands for in a layer; every other name stands for itself."""
    if name != "auto":
        return check_stabilizer(name)
    return "tanh" if half_fft else "none"


def _divisor(name: str) -> float | None:
    found = _DIVIDE.fullmatch(name)
    value = float(found.group(1)) if found else 0.0
    return value if value > 0 else None


def _identity(v: Tensor) -> Tensor:
    return v


def _hard_clip(v: Tensor) -> Tensor:
    return v.clamp(-1.0, 1.0)


def _two_sigma_clip(v: Tensor) -> Tensor:
    # Statistics in fp32: a half-precision sum over a large grid would itself overflow or stagnate.
    dims = tuple(range(1, v.ndim))
    mean, std = _statistics(v, dims)
    return torch.minimum(torch.maximum(v, (mean - 2 * std).to(v.dtype)), (mean + 2 * std).to(v.dtype))


def _normalise(v: Tensor) -> Tensor:
    dims = tuple(range(2, v.ndim))
    mean, std = _statistics(v, dims)
    return (v - mean.to(v.dtype)) / (std + 1e-6).to(v.dtype)


def _statistics(v: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    wide = at_least_fp32(v)
    return wide.mean(dims, keepdim=True), wide.std(dims, correction=0, keepdim=True)


_FUNCTIONS: dict[str, Stabilizer] = {
    "none": _identity,
    "tanh": torch.tanh,
    "hard-clip": _hard_clip,
    "2-sigma-clip": _two_sigma_clip,
    "normalise": _normalise,
}
