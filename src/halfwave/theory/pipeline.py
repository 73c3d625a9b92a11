"""Pipelines of a spectral convolution: where its numbers are rounded, stage by stage.

The three pipelines of the library (`halfwave.spectral`, gemm and fft backends, and cuFFT in half precision):

- ``"gemm"``: one matrix product per axis with a matrix rounded to the stage's format, sums in the accumulator, and a
  cast to the format after each axis (native products) or only after the last one (products widened to fp32);
- ``"cast"``: inputs rounded to the format, an FFT in the accumulator's format, its unnormalised result cast, multiplied
  by the rounded 1/N and cast again; the inverse FFT likewise, its result cast;
- ``"fft"``: a radix-2 FFT with every operation in the format, not normalised; 1/N as before.

Between them the contraction: spectrum and weights rounded, sums in the accumulator, the four real blocks of a complex
product cast to the format (native products) before they are combined into two, and the result cast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from halfwave.errors import InputError
from halfwave.numerics import Accumulation, Format
from halfwave.theory.bound import read_number
from halfwave.theory.roundoff import (
    Accumulator,
    Roundoff,
    holds,
    read_accumulation,
    read_format,
    roundoff_in,
    roundoff_of,
)

TransformName = Literal["gemm", "cast", "fft"]


@dataclass(frozen=True)
class Pipeline:
    """The formats and roundings of one spectral convolution.

    Attributes:
        forward, contraction, inverse: the format of each stage; the paper's eight F/H settings are choices of these.
        weights: the format that the weights are rounded to.
        transform: ``"gemm"``, ``"cast"`` or ``"fft"``.
        cast_every_step: results are cast after every axis and before complex blocks are combined, as native products
            do; False where products are widened to fp32 and only stage results are cast. True covers both.
        accumulate: what sums run in, a format (to nearest) or an `Accumulation` (what a device does), and the format of
            the widened FFT; a stage in a wider format sums to nearest in its own.
        scale: ``"fft"`` only: the field is multiplied by it before the forward transform.
        flush_to_zero: matrix products treat subnormal numbers as zero (bf16 dot-product instructions do); FFTs do not.
        inverse_transform: the way back where it is another one (a backend chosen for each format); None: the same.
    """

    forward: str | Format = "fp16"
    contraction: str | Format = "fp16"
    inverse: str | Format = "fp16"
    weights: str | Format = "fp16"
    transform: TransformName = "gemm"
    cast_every_step: bool = True
    accumulate: Accumulator = "fp32"
    scale: float = 1.0
    flush_to_zero: bool = False
    inverse_transform: TransformName | None = None

    def __post_init__(self) -> None:
        for role in ("forward", "contraction", "inverse", "weights"):
            object.__setattr__(self, role, read_format(getattr(self, role)).name)
        object.__setattr__(self, "accumulate", read_accumulation(self.accumulate))
        for name in (self.transform, self.inverse_transform or self.transform):
            if name not in get_args(TransformName):
                known = ", ".join(get_args(TransformName))
                raise InputError(f"unknown transform {name!r}: expected one of {known}")
        read_number("scale", self.scale, positive=True)
        if self.scale != 1.0 and self.transform != "fft":
            raise InputError(f"scale belongs to the transform 'fft', not to {self.transform!r}")

    @classmethod
    def uniform(cls, format: str | Format, transform: TransformName = "gemm") -> Pipeline:
        """One format for every stage."""
        return cls(format, format, format, format, transform)

    def back(self) -> Pipeline:
        """The pipeline as its inverse transform sees it."""
        return replace(self, transform=self.inverse_transform or self.transform, scale=1.0)

    def unit(self, format: Format) -> Roundoff:
        return roundoff_of(format, flush_to_zero=self.flush_to_zero)

    @property
    def sums(self) -> Accumulation:
        return read_accumulation(self.accumulate)

    def accumulator(self, stage: Format) -> Accumulation:
        """What sums of a stage run in."""
        return self.sums if holds(self.sums.format, stage) else Accumulation.to_nearest(stage)

    def sum_unit(self, stage: Format) -> Roundoff:
        """One rounding there."""
        return roundoff_in(self.accumulator(stage), flush_to_zero=self.flush_to_zero)

    @property
    def known(self) -> bool:
        """Whether its arithmetic is: sums that somebody vouches for, and no FFT of a library, which nobody does."""
        return self.sums.known and "cast" not in (self.transform, self.inverse_transform or self.transform)

    def __str__(self) -> str:
        stages = f"forward {self.forward}, contraction {self.contraction}, inverse {self.inverse}"
        cast = "cast at every step" if self.cast_every_step else "cast at stage ends"
        way = self.transform if self.inverse_transform is None else f"{self.transform}, back {self.inverse_transform}"
        return f"{way} ({stages}, weights {self.weights}, sums in {self.sums.format}, {cast})"


@dataclass(frozen=True)
class ErrorState:
    """What is known of a tensor on its way through a pipeline.

    Attributes: norm N >= ||exact||, error E >= ||computed - exact||, the format of the computed one (None: any).
    """

    norm: float
    error: float
    format: Format | None

    def through(self, alpha: float, relative: float, absolute: float) -> ErrorState:
        """A linear stage of norm alpha: N' = alpha N, E' = alpha E + relative (N + E) + absolute."""
        error = alpha * self.error + relative * (self.norm + self.error) + absolute
        return ErrorState(alpha * self.norm, error, self.format)


def _stays(format: Format, target: Format, flush_to_zero: bool) -> bool:
    """Does casting change no number?"""
    return holds(target, format) and not (flush_to_zero and target.smallest_normal > format.smallest_normal)


def cast(state: ErrorState, target: Format, chosen: Pipeline, entries: float) -> ErrorState:
    """Round to `target`: u'(N + E), and eta for each of the real `entries` (counted as the norm counts them).

    Exact where the format of the tensor is part of `target` (a format's own flushed numbers are gone already). The
    accumulator's own rounding of a sum that is then cast is charged where the sum was.
    """
    unit = chosen.unit(target)
    if state.format is not None and _stays(state.format, target, chosen.flush_to_zero):
        return state
    moved = state.through(1.0, unit.relative, unit.absolute * math.sqrt(entries))
    return ErrorState(moved.norm, moved.error, target)
