"""The bound of one spectral convolution of a model, at the input that it got.

Guaranteed where its arithmetic is known and no stage can overflow; otherwise an estimate that says why (`Bound`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from halfwave.certificates.norms import matrix_norms, vector_norm
from halfwave.errors import InputError
from halfwave.numerics import (
    Accumulation,
    Arithmetic,
    accumulation,
    kind_of,
    multiplied_in,
    multiplies_parts_natively,
    weakest,
)
from halfwave.spectral import DenseWeight, FourierTransform, SpectralConv, plan_transform
from halfwave.theory import Bound, Pipeline, TransformName, bound_block


def pipeline_of(conv: SpectralConv, grid: tuple[int, ...], device: torch.device) -> Pipeline:
    """Where this convolution rounds on this grid: the backends that its plans choose, native or widened products, and
    what this device multiplies and adds up in."""
    roles, transform = conv.resolved(device), conv.transform
    if not isinstance(transform, FourierTransform):
        raise InputError("no theorem covers transforms on the sphere: certify needs a model with Fourier blocks")
    how = [roles.forward_transform, roles.contraction, roles.inverse_transform, roles.weights]
    forward = transform.plan(grid, roles.forward_transform, device)
    inverse = plan_transform(transform.modes(grid), transform.backend, roles.inverse_transform, device, "hermitian")
    native = [arith.format.name for arith in how if arith.format.half and arith.how == "native"]
    way = _way(forward.backend, roles.forward_transform.format.name, grid, device)
    forward_in, contraction_in, inverse_in, weights_in = (multiplied_in(arith, device) for arith in how)
    return Pipeline(
        forward_in,
        contraction_in,
        inverse_in,
        weights_in,
        transform=way,
        # The inverse FFT runs in fp32 on every device; a half-precision one would only be charged more.
        inverse_transform="gemm" if inverse.backend == "gemm" else "cast",
        # What lies between two products by parts is split for the second.
        cast_every_step=bool(native) or any(arith.format.parts > 1 for arith in how),
        accumulate=_sums(how[:3], device, way),
        flush_to_zero=kind_of(device) == "cpu" and ("bf16" in native or _parts_flush(how, device)),
    )


def _parts_flush(how: Sequence[Arithmetic], device: torch.device) -> bool:
    return any(multiplies_parts_natively(arith, device.type) for arith in how)


def _sums(stages: Sequence[Arithmetic], device: torch.device, way: TransformName) -> Accumulation:
    """One accumulation for all stages: those in fp64 sum in fp64 in any case."""
    narrow = [arith for arith in stages if arith.compute is not torch.float64]
    sums = weakest(accumulation(arith, device) for arith in narrow or stages)
    if way == "fft":
        # Our constants are those of a radix-2 FFT; how cuFFT computes in half precision is not documented.
        return replace(sums, source=f"{sums.source}; cuFFT in half precision taken for a radix-2 FFT", known=False)
    return sums


def _way(backend: str, format: str, grid: tuple[int, ...], device: torch.device) -> TransformName:
    if backend == "gemm":
        return "gemm"
    half = device.type == "cuda" and format == "fp16" and all(n & (n - 1) == 0 for n in grid)
    return "fft" if half else "cast"


def weight_norms(conv: SpectralConv, grid: tuple[int, ...]) -> tuple[float, float]:
    """(r2, ra) over the modes that this grid uses, in float64."""
    dense, window = conv.weight.dense().detach(), conv.transform.weight_slices(grid)
    channels = dense.ndim - len(window)
    used = dense[(*[slice(None)] * channels, *window)]
    if channels == 1:  # (C, *K), separable: each matrix is diagonal, and its norms are those of its entries
        return matrix_norms(used[..., None, None])
    return matrix_norms(used.movedim((1, 0), (-2, -1)))  # (C, O, *K)


def bound_conv(
    conv: SpectralConv,
    grid: tuple[int, ...],
    device: torch.device,
    norm: float,
    norms: tuple[float, float],
    sup: float | None = None,
) -> Bound | None:
    """The bound for inputs of rms norm at most `norm` (and, where known, max|v| at most `sup`, which helps to exclude
    overflow); None where no theorem covers the weights' kind."""
    if not isinstance(conv.weight, DenseWeight):
        return None
    return bound_block(
        pipeline_of(conv, grid, device),
        grid=grid,
        modes=conv.transform.n_modes,
        in_channels=conv.in_channels,
        out_channels=conv.out_channels,
        r2=norms[0],
        ra=norms[1],
        norm=norm,
        bias=vector_norm(conv.bias),
        sup=sup,
    )


def underflow_over_rounding(exact: SpectralConv, conv: SpectralConv, v: Tensor) -> float:
    """What underflow can take from the kept coefficients over what rounding can: eta sqrt(count) / (u ||v_hat||).

    `exact` is the float64 one, `v` its stabilised input; counted are the real parts below the smallest normal number of
    the narrower of the two formats that hold the spectrum in `conv`. Zeros lose nothing.
    """
    spectrum = exact.transform.forward(v, exact.resolved(v.device).forward_transform).abs()
    roles = conv.resolved(v.device)
    formats = [roles.forward_transform.format, roles.contraction.format]
    format = max(formats, key=lambda f: f.smallest_normal)
    # Coefficients that are zero but for the rounding of float64 are zeros.
    low = (spectrum < format.smallest_normal) & (spectrum > 1e-13 * spectrum.max())
    size = format.unit_roundoff * float(spectrum.norm())
    return format.smallest_subnormal / 2 * math.sqrt(int(low.sum())) / size if size > 0 else 0.0
