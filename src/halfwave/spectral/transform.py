"""What all transforms share: an interface, and how PyTorch differentiates them.

A transform and the one back are adjoint to each other once they have the same weights, so each is the other's
derivative: `Analysis` and `Synthesis` of one plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Format, run_linear
from halfwave.spectral.modes import Layout
from halfwave.spectral.transform_plan import Backend


class Transform(Protocol):
    """Fields (B, C, *grid) to spectra, mode-major pairs, and back: what a spectral convolution asks for."""

    @property
    def n_modes(self) -> tuple[int, ...]: ...

    @property
    def max_n_modes(self) -> tuple[int, ...] | None:
        """The modes that have weights, where they are more than those that are kept."""

    @property
    def backend(self) -> Backend: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def dim(self) -> int: ...

    @property
    def weight_modes(self) -> tuple[int, ...]:
        """Shape of the mode axes of the weights."""

    def weight_slices(self, grid: tuple[int, ...]) -> tuple[slice, ...]:
        """Which weights the modes of this grid use."""

    def forward(self, x: Tensor, arith: Arithmetic) -> Tensor: ...

    def inverse(self, x_hat: Tensor, grid: tuple[int, ...], source: tuple[int, ...], arith: Arithmetic) -> Tensor: ...

    def plan(self, grid: tuple[int, ...], arith: Arithmetic, device: torch.device) -> Any: ...

    def half_fft(self, format: Format) -> bool:
        """True when the forward transform is an FFT in a format whose range it can leave."""

    def add_constant(self, x_hat: Tensor, constant: Tensor, grid: tuple[int, ...]) -> Tensor | None:
        """Add a constant per channel to the field by way of its spectrum; None if that cannot be."""


class Engine(Protocol):
    """A module that carries out plans of one kind: in slices, or (`plain_`) by differentiable operators alone."""

    def analyse(self, x: Tensor, plan: Any, /) -> Tensor: ...

    def synthesise(self, s: Tensor, plan: Any, /) -> Tensor: ...

    def plain_analyse(self, x: Tensor, plan: Any, /) -> Tensor: ...

    def plain_synthesise(self, s: Tensor, plan: Any, /) -> Tensor: ...


def analyse(x: Tensor, engine: Engine, plan: Any) -> Tensor:
    """A field's spectrum by this plan."""
    return run_linear(Analysis(engine, plan), x)


def synthesise(s: Tensor, engine: Engine, plan: Any) -> Tensor:
    """The field of a spectrum by this plan."""
    return run_linear(Synthesis(engine, plan), s)


@dataclass(frozen=True)
class Analysis:
    """The transform of a plan; its adjoint is synthesis with the same weights, in the same arithmetic."""

    engine: Engine
    plan: Any

    @property
    def adjoint(self) -> Synthesis:
        return Synthesis(self.engine, self.plan)

    def plain(self, x: Tensor) -> Tensor:
        return self.engine.plain_analyse(x, self.plan)

    def forward(self, x: Tensor) -> Tensor:
        return self.engine.analyse(x, self.plan)


@dataclass(frozen=True)
class Synthesis:
    """The transform back; its adjoint is analysis with the same weights, in the same arithmetic."""

    engine: Engine
    plan: Any

    @property
    def adjoint(self) -> Analysis:
        return Analysis(self.engine, self.plan)

    def plain(self, x: Tensor) -> Tensor:
        return self.engine.plain_synthesise(x, self.plan)

    def forward(self, x: Tensor) -> Tensor:
        return self.engine.synthesise(x, self.plan)
