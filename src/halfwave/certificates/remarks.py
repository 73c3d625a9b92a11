"""What a certificate says in sentences: concerns about range and bounds, and how to read its figures."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor, nn

from halfwave.certificates.convolution_certificate import ConvolutionCertificate
from halfwave.certificates.network_bound import GELU_ULPS
from halfwave.certificates.observing import conv_of
from halfwave.precision import Resolved
from halfwave.spectral import narrow_range

CLOSE_TO_OVERFLOW = 0.25
"""Values past this share of a format's largest number are reported."""
MUCH_UNDERFLOW = 1.0
"""So is underflow that can take more from the coefficients than rounding."""


def concerns(model: nn.Module, convolutions: tuple[ConvolutionCertificate, ...], measured: Tensor) -> tuple[str, ...]:
    """Overflow and underflow; `model` is the one under the policy."""
    texts: list[str] = []
    for conv in convolutions:
        roles = conv_of(model, conv.name).resolved(next(model.parameters()).device)
        texts += [f"{conv.name}: {text}" for text in _range_concerns(conv, roles, math.prod(conv.grid))]
    if not texts and not bool(measured.isfinite().all()):
        texts.append("inf or nan appeared in the answer")
    return tuple(texts)


def _range_concerns(conv: ConvolutionCertificate, roles: Resolved, points: int) -> Iterator[str]:
    forward, pointwise = roles.forward_transform.format, roles.pointwise.format
    narrow = min(forward, pointwise, key=lambda format: format.largest)
    if not conv.finite:
        yield f"inf or nan appeared: {narrow} ends at {narrow.largest:g}"
    elif conv.input_peak > CLOSE_TO_OVERFLOW * narrow.largest:
        yield f"values reach {conv.input_peak:.3g}, and {narrow} ends at {narrow.largest:g}"
    unnormalised = not conv.pipeline.startswith("gemm") and narrow_range(forward)
    if unnormalised and not points * conv.input_peak <= forward.largest:
        yield (
            f"an unnormalised FFT of {points} values up to {conv.input_peak:.3g} may pass {forward.largest:g}, the "
            f"end of {forward}: the gemm backend cannot"
        )
    if conv.underflow > MUCH_UNDERFLOW:
        yield (
            f"underflow can take {conv.underflow:.2g} times as much from its coefficients as rounding (the bound "
            "includes it): scale the data up, or take a format with more range"
        )


def notes(convolutions: tuple[ConvolutionCertificate, ...], answer_bound: Tensor | None) -> tuple[str, ...]:
    """How to read the figures: what the runs had in common, and what the bounds assume."""
    return (*_function_notes(convolutions), *_bound_notes(convolutions), _composition_note(answer_bound))


def _function_notes(convolutions: tuple[ConvolutionCertificate, ...]) -> Iterator[str]:
    named = sorted({conv.stabilizer for conv in convolutions} - {"none"})
    if named:
        yield (
            f"the stabilizer {', '.join(named)} changes the function; float64 and fp32 ran with it, so the errors are "
            "of rounding alone"
        )


def _bound_notes(convolutions: tuple[ConvolutionCertificate, ...]) -> Iterator[str]:
    for conv in convolutions:
        if conv.guaranteed is None and conv.finite:
            yield f"{conv.name}: no theorem covers its weights or its transform, so there is no bound"
        elif conv.guaranteed is not None and float(conv.guaranteed.max()) > 1:
            yield f"{conv.name}: the bound of its convolution is larger than its answer and excludes little"


def _composition_note(bound: Tensor | None) -> str:
    if bound is None:
        return (
            "no composed bound: it needs an FNO of plain blocks (no norm, preactivation or scaling), finite values, "
            "and a nonlinearity and a stabilizer with a Lipschitz constant"
        )
    empty = "; here they exceed the answer itself and exclude nothing" if float(bound.max()) > 1 else ""
    return (
        "the bounds of whole outputs are valid but loose, as errors are taken to align in every layer, and assume a "
        f"gelu within {GELU_ULPS} units of its arithmetic{empty}"
    )
