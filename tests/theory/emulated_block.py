"""A spectral convolution in the arithmetic of a `Pipeline`, and in float64: what `bound_block` has to cover.

Written from the description of the pipelines, on complex numpy arrays whose parts are numbers of the formats; sums run
in float32 as in a real matrix product. `Library` says how: a bound has to hold for every order of a sum and every FFT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from halfwave.numerics import get_format, round_to
from halfwave.theory.emulator import emulated_fft


def torch_fft(fields):
    """Unnormalised, over all axes but the first, in the dtype of the (C, *grid) fields."""
    return torch.fft.fftn(torch.from_numpy(fields), dim=tuple(range(1, fields.ndim))).numpy()


@dataclass(frozen=True)
class Library:
    """What multiplies matrices and transforms fields."""

    product: Callable = np.matmul
    fft: Callable = torch_fft


def rounded(x, format):
    """Real and imaginary parts rounded to the format."""
    if np.iscomplexobj(x):
        return rounded(x.real, format) + 1j * rounded(x.imag, format)
    return round_to(torch.from_numpy(np.array(x, dtype=np.float64)), format).numpy()


def cast(pipeline, x, format):
    """Rounded as the pipeline does: with or without subnormal numbers."""
    if np.iscomplexobj(x):
        return cast(pipeline, x.real, format) + 1j * cast(pipeline, x.imag, format)
    result = rounded(x, format)
    if pipeline.flush_to_zero:
        result = np.where(np.abs(result) < get_format(format).smallest_normal, 0.0, result)
    return result


def inner_frequencies(side, modes):
    count = min(side, modes)
    return np.arange(-(count // 2), count - count // 2)


def last_frequencies(side, modes):
    return np.arange(min(side // 2 + 1, modes // 2 + 1))


def frequencies(grid, modes):
    inner = [inner_frequencies(m, n) for m, n in zip(grid[:-1], modes[:-1], strict=True)]
    return [*inner, last_frequencies(grid[-1], modes[-1])]


def doubling(side, last):
    alone = (last == 0) | (2 * last == side)
    return np.where(alone, 1.0, 2.0)


def roots(w, side, sign):
    """e^{sign 2 pi i w j/m}, (K, m), exact on the axes of the plane."""
    reduced = np.outer(w, np.arange(side)) % side
    values = np.exp(sign * 2j * np.pi * reduced / side)
    return np.where(4 * reduced % side == 0, np.round(values.real) + 1j * np.round(values.imag), values)


def exact_block(v, weights, grid, modes):
    """(C, *grid) to (O, *grid) in float64; weights (*K, O, C)."""
    x = v.astype(complex)
    for axis, (w, m) in reversed(list(enumerate(zip(frequencies(grid, modes), grid, strict=True), start=1))):
        x = np.moveaxis(np.tensordot(x, roots(w, m, -1) / m, axes=([axis], [1])), -1, axis)
    y = np.einsum("...oc,c...->o...", weights, x)
    for axis, (w, m) in enumerate(zip(frequencies(grid, modes), grid, strict=True), start=1):
        matrix = roots(w, m, 1)
        if axis == len(grid):
            matrix = matrix * doubling(m, w)[:, None]
        y = np.moveaxis(np.tensordot(y, matrix, axes=([axis], [0])), -1, axis)
    return y.real


def matmul(library, format, left, right):
    """left @ right for complex arrays as one real product in the accumulator: (.., N) x (N, K)."""
    wide = np.float64 if get_format(format).name == "fp64" else np.float32
    rows = np.concatenate([left.real, left.imag], axis=-1).astype(wide)
    real = np.concatenate([right.real, -right.imag]).astype(wide)
    imaginary = np.concatenate([right.imag, right.real]).astype(wide)
    products = (library.product(rows, part).astype(np.float64) for part in (real, imaginary))
    return next(products) + 1j * next(products)


def matrix(pipeline, format, exact, scale):
    """Native products hold q(scale entry); widened ones scale q(entry) in fp32."""
    if pipeline.cast_every_step:
        return cast(pipeline, exact * scale, format)
    wide = np.complex128 if format == "fp64" else np.complex64
    return (cast(pipeline, exact, format) * scale).astype(wide).astype(np.complex128)


def along(x, axis, pipeline, format, exact, scale, library):
    """One axis by a matrix product, cast as the pipeline says."""
    moved = np.moveaxis(x, axis, -1)
    product = matmul(library, format, moved, matrix(pipeline, format, exact, scale))
    return np.moveaxis(cast(pipeline, product, format) if pipeline.cast_every_step else product, -1, axis)


def emulated_block(v, weights, grid, modes, pipeline, bias=None, library=Library()):  # noqa: B008
    """The same map as `exact_block`, rounded as `pipeline` says."""
    x = _forward(v, grid, modes, pipeline, library)
    y = _contract(x, weights, pipeline, library)
    if bias is not None:
        # The constant goes into the mean, in the contraction's format.
        mean = (slice(None), *[int(np.flatnonzero(w == 0)[0]) for w in frequencies(grid, modes)])
        y[mean] = cast(pipeline, y[mean] + cast(pipeline, bias, pipeline.contraction), pipeline.contraction)
    return _inverse(y, grid, modes, pipeline.back(), library)


def _forward(v, grid, modes, pipeline, library):
    format = pipeline.forward
    x = cast(pipeline, v * pipeline.scale, format)
    kept = frequencies(grid, modes)
    if pipeline.transform == "gemm":
        x = x.astype(complex)
        for axis, (w, m) in reversed(list(enumerate(zip(kept, grid, strict=True), start=1))):
            x = along(x, axis, pipeline, format, roots(w, m, -1).T, 1 / m, library)
        return cast(pipeline, x, format)
    if pipeline.transform == "fft":
        spectrum = emulated_fft(x, format, axes=len(grid))
    else:
        spectrum = library.fft(x.astype(np.float64 if format == "fp64" else np.float32)).astype(complex)
    taken = spectrum[np.ix_(range(len(v)), *[w % m for w, m in zip(kept, grid, strict=True)])]
    unit = float(cast(pipeline, np.array(1 / np.prod(grid)), format))
    return cast(pipeline, cast(pipeline, taken, format) * unit, format) / pipeline.scale


def _contract(x, weights, pipeline, library):
    format = pipeline.contraction
    wide = np.float64 if format == "fp64" else np.float32
    x = cast(pipeline, x, format)
    w = cast(pipeline, weights, pipeline.weights)
    if pipeline.cast_every_step:
        w = cast(pipeline, w, format)
    parts = {}
    for a in ("real", "imag"):
        for b in ("real", "imag"):
            left, right = getattr(w, a).astype(wide), np.moveaxis(getattr(x, b), 0, -1)[..., None].astype(wide)
            block = library.product(left, right)[..., 0].astype(np.float64)
            parts[a, b] = cast(pipeline, block, format) if pipeline.cast_every_step else block
    re = (parts["real", "real"] - parts["imag", "imag"]).astype(wide)
    im = (parts["real", "imag"] + parts["imag", "real"]).astype(wide)
    return np.moveaxis(cast(pipeline, re.astype(np.float64) + 1j * im.astype(np.float64), format), -1, 0)


def _inverse(y, grid, modes, pipeline, library):
    format = pipeline.inverse
    y = cast(pipeline, y, format)
    kept = frequencies(grid, modes)
    twice = doubling(grid[-1], kept[-1])
    if pipeline.transform == "gemm":
        for axis, (w, m) in enumerate(zip(kept, grid, strict=True), start=1):
            exact = roots(w, m, 1)
            if axis == len(grid):
                exact = exact * twice[:, None]
            y = along(y, axis, pipeline, format, exact, 1.0, library)
        return cast(pipeline, y.real, format)
    full = np.zeros((len(y), *grid), dtype=complex)
    for sign, part in ((1, y), (-1, y.conj())):
        share = part if sign == 1 else np.where(twice == 2.0, part, 0.0)
        full[np.ix_(range(len(y)), *[(sign * w) % m for w, m in zip(kept, grid, strict=True)])] += share
    if pipeline.transform == "fft":
        return emulated_fft(full, format, axes=len(grid), inverse=True).real
    wide = torch.from_numpy(full).to(torch.complex128 if format == "fp64" else torch.complex64)
    field = torch.fft.ifftn(wide, dim=tuple(range(1, len(grid) + 1)), norm="forward")
    return cast(pipeline, field.real.numpy().astype(np.float64), format)


def rms(field):
    """Root mean square over the grid, l2 over channels (the first axis)."""
    return float(np.sqrt(np.mean(np.sum(np.abs(field) ** 2, axis=0))))


def weight_norms(weights):
    """r2 and ra of weights (*K, O, C)."""
    return float(np.linalg.norm(weights, 2, axis=(-2, -1)).max()), float(
        np.linalg.norm(np.abs(weights), 2, axis=(-2, -1)).max()
    )
