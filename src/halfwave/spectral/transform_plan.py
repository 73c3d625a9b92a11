"""TransformPlan: everything that one transform of one grid needs, worked out before any tensor is touched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, compiling, portable
from halfwave.spectral.cost import cheaper_backend
from halfwave.spectral.matrices import Weighting, scale_of, transform_matrix
from halfwave.spectral.modes import AxisModes

Backend = Literal["auto", "gemm", "fft"]


@dataclass(frozen=True)
class TransformPlan:
    """How to transform between a grid and its kept modes.

    Attributes:
        backend: ``"gemm"`` or ``"fft"``, chosen.
        modes: kept modes of each axis.
        arith: the arithmetic.
        weighting: ``"mean"`` (forward) or ``"hermitian"`` (inverse), see `matrices`.
        device: where it runs.
    """

    backend: Literal["gemm", "fft"]
    modes: tuple[AxisModes, ...]
    arith: Arithmetic
    weighting: Weighting
    device: torch.device
    grid: tuple[int, ...]
    counts: tuple[int, ...]
    points: int
    kept: int

    def matrices(self) -> tuple[Tensor, ...]:
        """Of the gemm backend, one per axis: from their cache, which is bounded by bytes as this plan is not."""
        last = len(self.modes) - 1
        return tuple(
            [
                self.arith.matrix(
                    transform_matrix(axis, i == last, self.weighting, self.arith, self.device),
                    scale_of(axis.size, self.weighting),
                )
                for i, axis in enumerate(self.modes)
            ]
        )

    def __str__(self) -> str:
        grid, kept = ("x".join(map(str, shape)) for shape in (self.grid, self.counts))
        return f"{self.backend} transform of {grid} points and {kept} modes in {self.arith}"


def plan_transform(
    modes: tuple[AxisModes, ...], backend: Backend, arith: Arithmetic, device: torch.device, weighting: Weighting
) -> TransformPlan:
    """The plan for these modes (which know their grid), made once."""
    if portable():
        return _plan("gemm", modes, arith, weighting, device)
    if compiling():
        # The compiler has no kernels for the complex numbers inside an FFT.
        return _plan("gemm" if backend == "auto" else backend, modes, arith, weighting, device)
    return _cached(modes, backend, arith, device, weighting)


@lru_cache(maxsize=4096)
def _cached(
    modes: tuple[AxisModes, ...], backend: Backend, arith: Arithmetic, device: torch.device, weighting: Weighting
) -> TransformPlan:
    chosen = cheaper_backend(modes, arith, device) if backend == "auto" else backend
    return _plan("gemm" if chosen == "gemm" else "fft", modes, arith, weighting, device)


def _plan(
    backend: Literal["gemm", "fft"],
    modes: tuple[AxisModes, ...],
    arith: Arithmetic,
    weighting: Weighting,
    device: torch.device,
) -> TransformPlan:
    grid = tuple([axis.size for axis in modes])
    counts = tuple([axis.count for axis in modes])
    return TransformPlan(backend, modes, arith, weighting, device, grid, counts, prod(grid), prod(counts))
