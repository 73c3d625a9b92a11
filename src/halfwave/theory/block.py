"""The rounding error of one spectral convolution, from norms alone.

Norms: root mean square over the grid and l2 over channels for fields, l2 over modes (those that stand for w and -w
counted twice) and channels for spectra. Then both exact transforms have norm at most 1, the contraction r2, and an
error is followed through the stages by two numbers: a bound on the exact norm N, and on the error E. A stage with
exact norm alpha, relative local error lambda and absolute local error kappa takes (N, E) to
    N' = alpha N,    E' = alpha E + lambda (N + E) + kappa,
because what it acts on is the computed input, of norm at most N + E. Derivation of each lambda: docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from halfwave.errors import InputError
from halfwave.numerics import Format
from halfwave.theory.block_range import Peak, contraction_peaks, forward_peaks, input_peak, inverse_peak
from halfwave.theory.bound import Bound, Number, all_known, read_number, upper
from halfwave.theory.lattice import Integers, read_grid, require_powers_of_two
from halfwave.theory.pipeline import ErrorState, Pipeline, cast
from halfwave.theory.roundoff import holds, part_products, product_growth, read_format
from halfwave.theory.transforms import forward_transform, inverse_transform

ROOT2 = math.sqrt(2.0)


@dataclass(frozen=True)
class Sizes:
    """The counts of a spectral convolution.

    Attributes:
        grid, output_grid: points along each axis.
        modes: kept frequencies of each axis, positive and negative: min(m, n), along the last min(m, 2 floor(n/2) + 1).
        in_channels, out_channels: C and O.
    """

    grid: tuple[int, ...]
    output_grid: tuple[int, ...]
    modes: tuple[int, ...]
    in_channels: int
    out_channels: int

    @property
    def kept(self) -> int:
        return math.prod(self.modes)


def bound_block(
    pipeline: Pipeline | str,
    *,
    grid: Integers,
    modes: Integers,
    in_channels: int,
    out_channels: int,
    r2: Number,
    ra: Number,
    norm: Number,
    bias: Number = 0.0,
    output_grid: Integers | None = None,
    sup: Number | None = None,
) -> Bound:
    """A bound on ||computed - exact|| of y = F^-1(R(w) T_K F v) + b, rms over the grid and l2 over channels.

    Args:
        pipeline: a `Pipeline`, or the name of a format for all stages of the gemm pipeline.
        grid: points along each axis; an int is one axis.
        modes: `n_modes` of the layer, one for each axis (the last one counts both signs).
        in_channels, out_channels: C and O.
        r2: max over modes of the spectral norm of R(w).
        ra: max over modes of the spectral norm of |R(w)|, entries replaced by their moduli (ra >= r2).
        norm: ||v||: sqrt of the mean over the grid of the sum over channels of v^2; one sample of the batch.
        bias: l2 norm of the bias over channels.
        output_grid: the grid of the result, where it differs.
        sup: max|v|, where it is known: it helps to exclude overflow.

    Guaranteed where no number of any stage can leave its format (`block_range`); otherwise an estimate that says which
    one might, as inf is not a rounding error. An estimate as well where the arithmetic is not known (`Pipeline.known`).
    """
    chosen = Pipeline.uniform(pipeline) if isinstance(pipeline, str) else pipeline
    sizes = _read_sizes(grid, modes, in_channels, out_channels, output_grid)
    if "fft" in (chosen.transform, chosen.inverse_transform):
        require_powers_of_two(sizes.grid + sizes.output_grid, "the half-precision FFT")
    spectral, absolute = read_number("r2", r2), read_number("ra", ra)
    if absolute < spectral * (1.0 - 1e-9):
        raise InputError(f"ra must be at least r2 (moduli only enlarge a norm), got ra = {absolute}, r2 = {spectral}")
    start = ErrorState(read_number("norm", norm), 0.0, None)
    spectrum = forward_transform(start, chosen, sizes.grid, sizes.modes, sizes.in_channels)
    product = _contract(spectrum, chosen, sizes, spectral, absolute)
    shifted = _add_bias(product, chosen, sizes, read_number("bias", bias))
    field = inverse_transform(shifted, chosen.back(), sizes.output_grid, sizes.modes, sizes.out_channels)
    largest = input_peak(start.norm, math.prod(sizes.grid), None if sup is None else read_number("sup", sup))
    loaded = cast(spectrum, read_format(chosen.contraction), chosen, 2 * sizes.kept * sizes.in_channels)
    entered = cast(shifted, read_format(chosen.inverse), chosen, 2 * sizes.kept * sizes.out_channels)
    peaks = (
        *forward_peaks(chosen, sizes.grid, start.norm, largest),
        *contraction_peaks(chosen, _moduli(chosen, sizes, absolute), 2 * sizes.in_channels, loaded, shifted),
        inverse_peak(chosen.back(), sizes.output_grid, sizes.kept, entered),
    )
    known = all_known(r2, ra, norm, bias, sup) and chosen.known and all(peak.fits for peak in peaks)
    theorem = f"B1 (spectral convolution, {chosen.transform})"
    return upper(field.error, theorem, _assumptions(chosen, sizes, norm, peaks), known)


def _read_sizes(
    grid: Integers, modes: Integers, in_channels: int, out_channels: int, output_grid: Integers | None
) -> Sizes:
    sides, wanted = read_grid(grid), read_grid(modes)
    target = sides if output_grid is None else read_grid(output_grid)
    if not len(sides) == len(wanted) == len(target):
        raise InputError(f"grid {sides}, modes {wanted} and output grid {target} need as many axes as each other")
    for name, value in (("in_channels", in_channels), ("out_channels", out_channels)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be an integer >= 1, got {value!r}")
    counts = [min(m, o, n) for m, o, n in zip(sides, target, wanted, strict=True)]
    counts[-1] = min(sides[-1], target[-1], 2 * (wanted[-1] // 2) + 1)
    return Sizes(sides, target, tuple(counts), in_channels, out_channels)


def _contract(state: ErrorState, chosen: Pipeline, sizes: Sizes, r2: float, ra: float) -> ErrorState:
    """y_o = sum_c R_oc x_c for every mode.

    Rounded weights: |R^ - R| <= e|R| + sqrt2 eta entry by entry, in norm e ra + sqrt2 eta sqrt(C O).
    Sums: at most 2C products and as many additions for each real part, sqrt2 (2C) u_acc ra in all.
    Blocks: the four real products Rr xr, Ri xr, Rr xi, Ri xi together have norm ||R^|| ||x|| at most; a cast of each
    passes through the sums and differences that combine them with norm sqrt2.
    """
    target = read_format(chosen.contraction)
    unit, wide = chosen.unit(target), chosen.sum_unit(target)
    state = cast(state, target, chosen, 2 * sizes.kept * sizes.in_channels)
    relative, underflow = _weight_error(chosen, target)
    rounding = relative * ra + ROOT2 * underflow * math.sqrt(sizes.in_channels * sizes.out_channels)
    terms = 2 * sizes.in_channels
    sums = ROOT2 * product_growth(chosen.accumulator(target), terms, target).excess * _moduli(chosen, sizes, ra)
    lost = ROOT2 * terms * part_products(target) * wide.absolute * math.sqrt(sizes.kept * sizes.out_channels)
    relative_error, absolute_error = rounding + sums, lost
    if chosen.cast_every_step:
        relative_error += ROOT2 * unit.relative * (r2 + rounding + sums)
        absolute_error += ROOT2 * unit.absolute * math.sqrt(4 * sizes.kept * sizes.out_channels)
    state = replace(state.through(r2, relative_error, absolute_error), format=None)
    return cast(state, target, chosen, 2 * sizes.kept * sizes.out_channels)


def _moduli(chosen: Pipeline, sizes: Sizes, ra: float) -> float:
    """|| |R^| ||: the norm of the moduli of the rounded weights."""
    relative, underflow = _weight_error(chosen, read_format(chosen.contraction))
    return ra * (1.0 + relative) + ROOT2 * underflow * math.sqrt(sizes.in_channels * sizes.out_channels)


def _weight_error(chosen: Pipeline, target: Format) -> tuple[float, float]:
    """Relative and absolute error of one real part of a weight: rounded to its format, then to the contraction's."""
    weights = read_format(chosen.weights)
    unit = chosen.unit(weights)
    relative, absolute = unit.relative, unit.absolute
    if not holds(target, weights):
        second = chosen.unit(target)
        relative = (unit.growth * second.growth).excess
        absolute = absolute * second.growth.factor + second.absolute
    return relative, absolute


def _add_bias(state: ErrorState, chosen: Pipeline, sizes: Sizes, bias: float) -> ErrorState:
    """One number for each channel, rounded and added to the mean (or to the field), in either stage's format."""
    if bias == 0.0:
        return state
    units = [chosen.unit(read_format(name)) for name in (chosen.contraction, chosen.inverse)]
    relative, absolute = max(u.relative for u in units), max(u.absolute for u in units)
    error = state.error + relative * bias + absolute * math.sqrt(sizes.out_channels)
    total = ErrorState(state.norm + bias, error, state.format)
    # The sum itself loses nothing to underflow, unless it is flushed.
    return total.through(1.0, relative, max(u.flushed for u in units) * math.sqrt(sizes.out_channels))


def _assumptions(chosen: Pipeline, sizes: Sizes, norm: Number, peaks: tuple[Peak, ...]) -> tuple[str, ...]:
    grid = "x".join(map(str, sizes.grid))
    texts = [
        f"pipeline {chosen}",
        f"grid {grid}, {sizes.kept} modes, {sizes.in_channels} to {sizes.out_channels} channels",
        f"rms norm of the input <= {float(norm):.6g}",
        _overflow_text(peaks),
    ]
    texts.append(f"sums in {chosen.sums}")
    if "cast" in (chosen.transform, chosen.inverse_transform):
        texts.append(
            f"the library's FFT in {chosen.sums.format} is as accurate as its stages allow: nobody vouches for it"
        )
    return tuple(texts)


def _overflow_text(peaks: tuple[Peak, ...]) -> str:
    may = "; ".join(str(peak) for peak in peaks if not peak.fits)
    return f"no overflow, which is not excluded: {may}" if may else "no overflow, which is excluded in every stage"
