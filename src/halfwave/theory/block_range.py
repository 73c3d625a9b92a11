"""The largest numbers inside a spectral convolution: does every stage stay within its format?

Bounds on computed numbers from the same norms as `block`. A field of rms norm N has no value above sqrt(n) N, and its
coefficients, which are means, none above N. Products with weights reach ra N. The inverse adds K modes up: it reaches
sqrt(K) times the norm of the spectrum, and does where all modes have the same size and meet in one point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from halfwave.numerics import Format
from halfwave.theory.bound import outward_up
from halfwave.theory.growth import Growth
from halfwave.theory.overflow import fft_growth
from halfwave.theory.pipeline import ErrorState, Pipeline
from halfwave.theory.roundoff import part_products, product_peak, read_format, roundoff_of
from halfwave.theory.transforms import library_growth


@dataclass(frozen=True)
class Peak:
    """No number of this stage is larger than `value`; `format` holds them."""

    stage: str
    value: float
    format: Format

    @property
    def fits(self) -> bool:
        return self.value <= self.format.largest

    def __str__(self) -> str:
        end = f"{self.format.name} ends at {self.format.largest:.4g}"
        return f"{self.stage} to {self.value:.3g}, {end}"


def input_peak(norm: float, points: int, sup: float | None) -> float:
    """max|v| as given, or sqrt(n) N: all of the field in one point."""
    return math.sqrt(points) * norm if sup is None else min(sup, math.sqrt(points) * norm)


def forward_peaks(chosen: Pipeline, grid: tuple[int, ...], norm: float, largest: float) -> Iterator[Peak]:
    """The input, and the transform: means for gemm, sums of all points for an FFT that is normalised afterwards."""
    target = read_format(chosen.forward)
    yield Peak("input", outward_up(chosen.scale * largest), target)
    if chosen.transform == "gemm":
        yield Peak("forward transform", _through_matrices(chosen, target, grid, largest), target)
    else:
        total = math.prod(grid) * norm * chosen.scale
        yield Peak("forward transform", _through_fft(chosen, target, grid, total), target)


def contraction_peaks(
    chosen: Pipeline, moduli: float, terms: int, before: ErrorState, after: ErrorState
) -> Iterator[Peak]:
    """Products of rounded weights (`moduli` >= || |R^| ||) with the spectrum before, and their sum, the one after."""
    target = read_format(chosen.contraction)
    sums, wide = chosen.accumulator(target), chosen.sum_unit(target)
    reach = moduli * (before.norm + before.error) * product_peak(sums, terms, target)
    inside = reach + terms * part_products(target) * wide.absolute
    yield Peak("sums of the contraction", outward_up(inside), sums.format)
    unit = chosen.unit(target)
    stored = max(inside * unit.growth.factor + unit.absolute, after.norm + after.error)
    yield Peak("contraction", outward_up(stored), target)


def inverse_peak(chosen: Pipeline, grid: tuple[int, ...], kept: int, spectrum: ErrorState) -> Peak:
    """All modes in one point."""
    target = read_format(chosen.inverse)
    total = math.sqrt(kept) * (spectrum.norm + spectrum.error)
    if chosen.transform == "gemm":
        return Peak("inverse transform", _through_matrices(chosen, target, grid, total), target)
    return Peak("inverse transform", _through_fft(chosen, target, grid, total), target)


def _through_matrices(chosen: Pipeline, target: Format, grid: tuple[int, ...], size: float) -> float:
    """Axis after axis: entries of modulus 1 rounded, sums, a cast; losses to underflow enlarge as well."""
    unit, sums = chosen.unit(target), chosen.accumulator(target)
    size = unit.growth.factor * size + unit.absolute
    for side in grid:
        entry = (Growth(unit.unit_error(1.0 / side)) * unit.growth).factor * product_peak(sums, 2 * side + 2, target)
        lost = 2 * side * part_products(target) * chosen.sum_unit(target).absolute
        size = size * entry + lost + unit.absolute
    return outward_up(size)


def _through_fft(chosen: Pipeline, target: Format, grid: tuple[int, ...], size: float) -> float:
    half = chosen.transform == "fft"
    unit = roundoff_of(target if half else chosen.accumulator(target).format)
    growth = fft_growth(unit, grid) if half else library_growth(unit, grid)
    stored = roundoff_of(target)
    points = math.prod(grid)
    reach = growth.factor * (stored.growth.factor * size + points * (stored.absolute + 8.0 * unit.absolute))
    return outward_up(reach * stored.growth.factor)
