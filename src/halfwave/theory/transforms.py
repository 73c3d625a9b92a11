"""Error of the forward and inverse transforms of a pipeline, in the norms of `block`.

Matrix product along one axis with m points and K kept modes, exact norm 1: the rounded matrix adds delta = the norm of
its rounding errors (`dft_matrix`); T products and additions in the accumulator add T u_acc sum|entry||x| to each real
part, at most T u_acc (1+mu) sqrt(K) in norm, sqrt2 times that where both parts are sums over both parts.
FFT in a format: relative G - 1; the butterflies of a stage that multiplies lose at most 2 sqrt2 eta sqrt(n) to
underflow, which each later stage multiplies by sqrt2: at most (2+sqrt2) eta G on means where the first two stages do
not multiply, 2 (2+sqrt2) eta G where all do, and sqrt(n) times that in an unnormalised inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch

from halfwave.numerics import Format, round_to
from halfwave.theory.dft_matrix import matrix_error
from halfwave.theory.growth import Growth
from halfwave.theory.overflow import fft_growth, fft_losses
from halfwave.theory.pipeline import ErrorState, Pipeline, cast
from halfwave.theory.roundoff import Roundoff, part_products, product_growth, read_format, roundoff_of

ROOT2 = math.sqrt(2.0)


@dataclass(frozen=True)
class TransformStep:
    """One axis of a matrix-product transform.

    Attributes:
        side, kept: points m and modes K of the axis.
        terms: products that each real result sums up.
        scales: what the matrix entries may be multiplied by before they are rounded.
        parts: sqrt2 where real and imaginary part are both sums over both parts of the operand, else 1.
        entries: real numbers in the result, counted as the norm counts them.
    """

    side: int
    kept: int
    terms: int
    scales: tuple[float, ...]
    parts: float
    entries: int


def forward_transform(
    state: ErrorState, chosen: Pipeline, grid: tuple[int, ...], modes: tuple[int, ...], channels: int
) -> ErrorState:
    """Field to spectrum (means), from the input's rounding to the spectrum in the stage's format."""
    target = read_format(chosen.forward)
    state = cast(state, target, chosen, channels / chosen.scale**2)
    if chosen.transform != "gemm":
        return _forward_fft(state, chosen, target, grid, math.prod(modes), channels)
    kept = 1
    for axis in reversed(range(len(grid))):
        last, first = axis == len(grid) - 1, axis == 0
        scales = (1.0, 1.0 / grid[axis])
        terms = grid[axis] if last else 2 * grid[axis]
        kept *= modes[axis]
        step = TransformStep(grid[axis], modes[axis], terms, scales, 1.0 if last else ROOT2, 2 * kept * channels)
        state = _settle(_product(state, chosen, target, step), chosen, target, step.entries, first)
    return state


def inverse_transform(
    state: ErrorState, chosen: Pipeline, grid: tuple[int, ...], modes: tuple[int, ...], channels: int
) -> ErrorState:
    """Spectrum to field, from the spectrum's rounding to the field in the stage's format."""
    target = read_format(chosen.inverse)
    kept = math.prod(modes)
    state = cast(state, target, chosen, 2 * kept * channels)
    if chosen.transform != "gemm":
        return _inverse_fft(state, chosen, target, grid, channels)
    for axis in range(len(grid)):
        last = axis == len(grid) - 1
        terms = 2 * (modes[axis] // 2 + 1) if last else 2 * modes[axis]
        scales = (1.0, 2.0) if last else (1.0,)
        kept //= modes[axis]
        entries = channels if last else 2 * kept * channels
        step = TransformStep(grid[axis], modes[axis], terms, scales, 1.0 if last else ROOT2, entries)
        state = _settle(_product(state, chosen, target, step), chosen, target, entries, last)
    return state


def _product(state: ErrorState, chosen: Pipeline, target: Format, step: TransformStep) -> ErrorState:
    """One axis. Three roundings more than the additions: of inexact products, and of a scale that multiplies the
    rounded entries in the accumulator (1/m itself, and the product)."""
    sums_in = chosen.accumulator(target)
    unit, wide = chosen.unit(target), chosen.sum_unit(target)
    delta = matrix_error(step.side, step.kept, target, unit, step.scales)
    entry = 1.0 + max(unit.unit_error(scale) for scale in step.scales)
    growth = product_growth(sums_in, step.terms, target) * Growth(sums_in.unit) ** 2
    sums = step.parts * growth.excess * entry * math.sqrt(step.kept)
    # A product that underflows, or a sum that is flushed, not both: a zero added leaves the sum as it is.
    lost = step.terms * part_products(target) * wide.absolute * math.sqrt(step.entries)
    return ErrorState(state.norm, state.error, None).through(1.0, delta + sums, lost)


def _settle(state: ErrorState, chosen: Pipeline, target: Format, entries: int, end: bool) -> ErrorState:
    """The result of one axis: cast to the stage's format, or kept in the accumulator's between axes."""
    kept_wide = not (end or chosen.cast_every_step)
    return cast(state, chosen.accumulator(target).format if kept_wide else target, chosen, entries)


def _forward_fft(
    state: ErrorState, chosen: Pipeline, target: Format, grid: tuple[int, ...], kept: int, channels: int
) -> ErrorState:
    """FFT, then (means): the unnormalised result cast, times the rounded 1/N, cast."""
    points = math.prod(grid)
    state = _fft(state, chosen, target, grid, channels, 1.0 / chosen.scale)
    if chosen.transform == "cast":
        unit = chosen.unit(target)
        state = state.through(1.0, unit.relative, unit.absolute / points * math.sqrt(2 * kept * channels))
    state = state.through(1.0, _reciprocal_error(points, target), 0.0)
    return cast(ErrorState(state.norm, state.error, None), target, chosen, 2 * kept * channels)


def _inverse_fft(
    state: ErrorState, chosen: Pipeline, target: Format, grid: tuple[int, ...], channels: int
) -> ErrorState:
    state = _fft(state, chosen, target, grid, channels, math.sqrt(math.prod(grid)))
    if chosen.transform != "cast":
        return state
    return cast(ErrorState(state.norm, state.error, None), target, chosen, channels)


def _fft(
    state: ErrorState, chosen: Pipeline, target: Format, grid: tuple[int, ...], channels: int, underflow: float
) -> ErrorState:
    if chosen.transform == "fft":
        unit = roundoff_of(target)
        growth, losses = fft_growth(unit, grid), fft_losses(grid, ROOT2)
    else:
        unit = roundoff_of(chosen.accumulator(target).format)
        growth, losses = library_growth(unit, grid), 2.0 * (2.0 + ROOT2)
    lost = losses * unit.absolute * growth.factor * math.sqrt(channels) * underflow
    return ErrorState(state.norm, state.error, None).through(1.0, growth.excess, lost)


def library_growth(unit: Roundoff, grid: tuple[int, ...]) -> Growth:
    """G of a library's FFT, an estimate, as its algorithm is not known: a twiddle product in every stage of radix 2,
    and for sides that are not powers of two three transforms of four times the length, as in Bluestein's algorithm.
    (The latter's worst case is larger: docs/theory.md.)"""
    stages = 0
    for side in grid:
        power = side & (side - 1) == 0
        stages += side.bit_length() - 1 if power else 3 * (side.bit_length() + 2)
    step = unit.growth * Growth(unit.unit_error()) * Growth(unit.product_error())
    return step**stages


def _reciprocal_error(points: int, target: Format) -> float:
    """|q(1/N) N - 1|: large where 1/N is subnormal. A difference of nearly equal numbers, so in fractions."""
    rounded = float(round_to(torch.tensor(1.0 / points, dtype=torch.float64), target))
    return float(abs(Fraction(rounded) * points - 1))
