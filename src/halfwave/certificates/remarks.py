"""What a certificate says in sentences: concerns about range and bounds, and how to read its figures."""

from __future__ import annotations

import math
from collections.abc import Iterator

from halfwave.certificates.certificate import BlockCertificate
from halfwave.certificates.network_bound import GELU_ULPS
from halfwave.certificates.norms import largest_rms
from halfwave.certificates.observing import Runs, conv_of
from halfwave.precision import Resolved
from halfwave.spectral import narrow_range

CLOSE_TO_OVERFLOW = 0.25
"""Values past this share of a format's largest number are reported."""
MUCH_UNDERFLOW = 1.0
"""So is underflow that can take more from the coefficients than rounding."""


def concerns(runs: Runs, blocks: tuple[BlockCertificate, ...]) -> tuple[str, ...]:
    """Overflow, underflow, and bounds that are missing or exclude little."""
    texts: list[str] = []
    for block in blocks:
        x = runs.chosen.inputs[f"{block.name}.conv"]
        roles = conv_of(runs.model, block.name).resolved(x.device)
        texts += [f"{block.name}: {text}" for text in _range_concerns(block, roles, math.prod(x.shape[2:]))]
        texts += [f"{block.name}: {text}" for text in _bound_concerns(block)]
    return tuple(texts)


def _range_concerns(block: BlockCertificate, roles: Resolved, points: int) -> Iterator[str]:
    forward, pointwise = roles.forward_transform.format, roles.pointwise.format
    narrow = min(forward, pointwise, key=lambda format: format.largest)
    if not block.finite:
        yield f"inf or nan appeared: {narrow} ends at {narrow.largest:g}"
    elif block.input_peak > CLOSE_TO_OVERFLOW * narrow.largest:
        yield f"values reach {block.input_peak:.3g}, and {narrow} ends at {narrow.largest:g}"
    unnormalised = not block.pipeline.startswith("gemm") and narrow_range(forward)
    if unnormalised and not points * block.input_peak <= forward.largest:
        yield (
            f"an unnormalised FFT of {points} values up to {block.input_peak:.3g} may pass {forward.largest:g}, the "
            f"end of {forward}: the gemm backend cannot"
        )
    if block.underflow > MUCH_UNDERFLOW:
        yield (
            f"underflow can take {block.underflow:.2g} times as much from its coefficients as rounding (the bound "
            "includes it): scale the data up, or take a format with more range"
        )


def _bound_concerns(block: BlockCertificate) -> Iterator[str]:
    if block.conv_bound is None and block.finite:
        yield "no bound, as its weights are contracted factor by factor"
    if block.conv_bound is not None and block.conv_bound.value > block.conv_norm:
        yield "the bound of its convolution is larger than its answer and excludes little"


def notes(
    runs: Runs, blocks: tuple[BlockCertificate, ...], grid: tuple[int, ...], bound: float | None
) -> tuple[str, ...]:
    """How to read the figures: what was compared, and what the bounds assume."""
    return (*_grid_notes(runs, blocks[0].name, grid), *_function_notes(blocks), _composition_note(runs, bound))


def _grid_notes(runs: Runs, first: str, grid: tuple[int, ...]) -> Iterator[str]:
    yield (
        "the discretization error is measured between this grid and every second point of it, in float64; what a "
        "finer grid would change is not seen"
    )
    name = f"{first}.conv"
    modes = conv_of(runs.model, first).transform.n_modes
    if any(n < k for n, k in zip(runs.half_grid.inputs[name].shape[2:], modes, strict=True)):
        yield "the half grid has fewer frequencies than the layers keep: its error includes dropped modes"
    if any(side % 2 for side in grid):
        yield "on sides with an odd number of points the half grid covers a slightly larger cell"


def _function_notes(blocks: tuple[BlockCertificate, ...]) -> Iterator[str]:
    named = sorted({block.stabilizer for block in blocks} - {"none"})
    if named:
        yield (
            f"the stabilizer {', '.join(named)} changes the function; float64 and fp32 ran with it, so the errors are "
            "of rounding alone"
        )


def _composition_note(runs: Runs, bound: float | None) -> str:
    if bound is None:
        return (
            "no composed bound: it needs an FNO of plain blocks (no norm, preactivation or scaling), finite values, "
            "and a nonlinearity and a stabilizer with a Lipschitz constant"
        )
    size = largest_rms(runs.exact.output)
    empty = "; here they exceed the answer itself and exclude nothing" if bound > size else ""
    return (
        "the bounds of whole outputs are valid but loose, as errors are taken to align in every layer, and assume a "
        f"gelu within {GELU_ULPS} units of its arithmetic{empty}"
    )
