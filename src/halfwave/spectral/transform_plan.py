"""TransformPlan: everything that one transform of one grid needs, worked out before any tensor is touched."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Format, arithmetic_of
from halfwave.spectral.cost import cheaper_backend
from halfwave.spectral.matrices import Weighting, transform_matrix
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
        matrices: of the gemm backend, one per axis; empty for fft.
    """

    backend: Literal["gemm", "fft"]
    modes: tuple[AxisModes, ...]
    arith: Arithmetic
    weighting: Weighting
    matrices: tuple[Tensor, ...]
    grid: tuple[int, ...]
    counts: tuple[int, ...]
    points: int
    kept: int

    def __str__(self) -> str:
        grid, kept = ("x".join(map(str, shape)) for shape in (self.grid, self.counts))
        return f"{self.backend} transform of {grid} points and {kept} modes in {self.arith}"


def plan_transform(
    modes: tuple[AxisModes, ...], backend: Backend, format: Format, device: torch.device, weighting: Weighting
) -> TransformPlan:
    """The plan for these modes (which know their grid)."""
    grid = tuple([axis.size for axis in modes])
    counts = tuple([axis.count for axis in modes])
    chosen: str = backend
    if backend == "auto":
        # The compiler (and an exporter) has no kernels for the complex numbers inside an FFT.
        compiling = torch.compiler.is_compiling()
        chosen = "gemm" if compiling else cheaper_backend(grid, counts, format.name, str(device))
    matrices = []
    if chosen == "gemm":
        for i, axis in enumerate(modes):
            matrices.append(transform_matrix(axis, i == len(modes) - 1, weighting, format.name, device))
    return TransformPlan(
        backend="gemm" if chosen == "gemm" else "fft",
        modes=modes,
        arith=arithmetic_of(format.name, device.type),
        weighting=weighting,
        matrices=tuple(matrices),
        grid=grid,
        counts=counts,
        points=prod(grid),
        kept=prod(counts),
    )
