"""Roundoff in a format, bit for bit: a radix-2 FFT and a matrix-product coefficient with every operation rounded.

Operands are kept as numbers of the format inside a wider type; each product and sum is computed there and rounded once.
A product of two p-bit numbers is exact in 2p bits; a sum rounded first to q >= 2p+2 bits and then to p bits is rounded
correctly all the same (Figueroa), so float64 serves every format here and float32 serves fp16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from halfwave.errors import InputError
from halfwave.numerics import Accumulation, Format, kept_products, round_to
from halfwave.theory.lattice import require_powers_of_two
from halfwave.theory.roundoff import read_format

if TYPE_CHECKING:
    from halfwave.theory.precision import Algorithm

_NATIVE_SUMS = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def emulated_fft(
    values: ArrayLike, format: str | Format, *, axes: int | None = None, inverse: bool = False
) -> NDArray[np.complex128]:
    """X(w) = sum_j v_j e^{-2 pi i <w, j/m>} over the last `axes` axes (all by default), not normalised.

    Decimation in time, one axis after another (the last first); inputs, twiddle factors, products and sums are rounded
    to `format`. `inverse` takes e^{+2 pi i}. Sides: powers of two. Overflow gives inf and nan as the format does.
    Returns complex128 whose parts are numbers of the format.
    """
    target = read_format(format)
    array = np.asarray(values)
    count = array.ndim if axes is None else axes
    if not 1 <= count <= array.ndim:
        raise InputError(f"axes must be between 1 and {array.ndim}, got {axes}")
    require_powers_of_two(array.shape[array.ndim - count :], "the radix-2 emulator")
    dtype = torch.float32 if target.name == "fp16" else torch.float64
    # The first rounding is from float64: by way of float32 it would be rounded twice.
    re, im = (round_to(_tensor(part), target).to(dtype) for part in (array.real, array.imag))
    for axis in range(array.ndim - 1, array.ndim - count - 1, -1):
        re, im = _transform_axis(re.movedim(axis, -1), im.movedim(axis, -1), target, inverse)
        re, im = re.movedim(-1, axis), im.movedim(-1, axis)
    spectrum = np.empty(array.shape, dtype=np.complex128)
    spectrum.real, spectrum.imag = re.double().numpy(), im.double().numpy()
    return spectrum


def twiddles(count: int, inverse: bool) -> NDArray[np.complex128]:
    """e^{-+ 2 pi i k/(2 count)}, k < count, with exact 1 and -+i."""
    roots = np.exp((2j if inverse else -2j) * np.pi * np.arange(count) / (2 * count))
    roots[0] = 1.0
    if count % 2 == 0:
        roots[count // 2] = 1j if inverse else -1j
    return roots


def _transform_axis(re: Tensor, im: Tensor, target: Format, inverse: bool) -> tuple[Tensor, Tensor]:
    side = re.shape[-1]
    order = torch.from_numpy(_bit_reversal(side))
    re, im = re[..., order], im[..., order]
    half = 1
    while half < side:
        re, im = _stage(re, im, half, target, inverse)
        half *= 2
    return re, im


def _stage(re: Tensor, im: Tensor, half: int, target: Format, inverse: bool) -> tuple[Tensor, Tensor]:
    """Butterflies (a, b) -> (a + w b, a - w b) on pairs `half` apart."""
    side, dtype = re.shape[-1], re.dtype
    shape = (*re.shape[:-1], side // (2 * half), 2, half)
    (a_re, b_re), (a_im, b_im) = (part.reshape(shape).unbind(-2) for part in (re, im))
    if half > 1:
        roots = twiddles(half, inverse)
        w_re, w_im = (round_to(_tensor(part), target).to(dtype) for part in (roots.real, roots.imag))
        b_re, b_im = (
            round_to(round_to(b_re * w_re, target) - round_to(b_im * w_im, target), target),
            round_to(round_to(b_re * w_im, target) + round_to(b_im * w_re, target), target),
        )
    pairs = ((a_re, b_re), (a_im, b_im))
    out = (torch.stack((round_to(a + b, target), round_to(a - b, target)), dim=-2) for a, b in pairs)
    new_re, new_im = (part.reshape(re.shape) for part in out)
    return new_re, new_im


def _bit_reversal(side: int) -> NDArray[np.int64]:
    bits = side.bit_length() - 1
    order = np.zeros(side, dtype=np.int64)
    for bit in range(bits):
        order |= ((np.arange(side) >> bit) & 1) << (bits - 1 - bit)
    return order


def emulated_coefficient(
    values: NDArray[np.float64], modes: NDArray[np.complex128], target: Format, algorithm: Algorithm
) -> complex:
    """(1/n) sum_j q(s v_j) q(phi_j) / s, with the roundings that `algorithm` names; sums run from first to last."""
    rounded = round_to(_tensor(values * algorithm.scale), target).ravel()
    sides = [round_to(_tensor(part), target).ravel() for part in (modes.real, modes.imag)]
    if algorithm.name == "gemm":
        sums = [_summed(rounded, side, target, algorithm) for side in sides]
    else:
        sums = [float((side * rounded).sum()) for side in sides]
    means = torch.tensor(sums, dtype=torch.float64) / values.size
    if algorithm.output_cast:
        means = round_to(means, target)
    return complex(float(means[0]), float(means[1])) / algorithm.scale


def _summed(a: Tensor, b: Tensor, target: Format, algorithm: Algorithm) -> float:
    """sum_j a_j b_j, products exact in float64 or rounded; by parts a sum for each pair of them, and theirs."""
    products = [x * y for x, y in kept_products(a, b, target.parts)] if target.parts > 1 else [a * b]
    if algorithm.products_rounded:
        products = [round_to(torch.stack(products).sum(0), target)]
    sums = [_sequential_sum(product, algorithm.sums) for product in products]
    return sums[0] if len(sums) == 1 else _sequential_sum(torch.tensor(sums, dtype=torch.float64), algorithm.sums)


def _sequential_sum(terms: Tensor, sums: Accumulation) -> float:
    if not sums.nearest:
        raise InputError(f"only an accumulator that rounds to nearest can be emulated, got {sums}")
    accumulator = sums.format
    rounded = round_to(terms, accumulator)
    if accumulator.name in _NATIVE_SUMS:
        with np.errstate(over="ignore"):
            return float(np.cumsum(rounded.numpy(), dtype=_NATIVE_SUMS[accumulator.name])[-1])
    total = torch.zeros((), dtype=torch.float64)
    for term in rounded:
        total = round_to(total + term, accumulator)
    return float(total)


def _tensor(array: ArrayLike) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))
