"""Fields on another grid: what a skip connection beside a spectral convolution needs when that changes the grid.

``layout="exact"``: band-limited interpolation. The frequencies (degrees and orders on the sphere) that both grids
resolve are kept, so a field of those alone arrives exactly; the Nyquist frequency of the smaller grid, whose sign no
grid tells, is dropped. ``layout="neuralop"`` repeats neuraloperator, whose trained weights rely on it: linear (one
axis) and bicubic (two) with the ends aligned, FFT coefficients cut at the end of each half (three), and on the sphere
the degrees of the convolution with twice its orders.

Shapes: (B, C, *grid) to (B, C, *other grid), computed in fp32 (fp64 for fp64), in the dtype of the input.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from halfwave.numerics import arithmetic_of
from halfwave.spectral.fourier import FourierTransform
from halfwave.spectral.spherical import SphericalTransform
from halfwave.spectral.transform import Transform


def resample(x: Tensor, grid: tuple[int, ...], transform: Transform) -> Tensor:
    """`x` on another grid, in the way of the convolution with this transform; `x` itself on its own grid."""
    source = tuple(x.shape[2:])
    if grid == source:
        return x
    wide = x if x.dtype is torch.float64 else x.float()
    if isinstance(transform, SphericalTransform):
        return _on_sphere(wide, grid, transform).to(x.dtype)
    if transform.layout == "neuralop":
        return _as_neuralop(wide, grid).to(x.dtype)
    common = tuple(_odd(min(a, b)) for a, b in zip(source, grid, strict=True))
    return _through(FourierTransform(common, transform.backend), wide, grid).to(x.dtype)


def _through(transform: Transform, x: Tensor, grid: tuple[int, ...]) -> Tensor:
    arith = arithmetic_of("fp64" if x.dtype is torch.float64 else "fp32", x.device.type)
    return transform.inverse(transform.forward(x, arith), grid, tuple(x.shape[2:]), arith)


def _odd(size: int) -> int:
    """The frequencies -k .. k that a grid of `size` points resolves, without its Nyquist frequency."""
    return size - 1 + size % 2


def _on_sphere(x: Tensor, grid: tuple[int, ...], transform: SphericalTransform) -> Tensor:
    if transform.layout == "neuralop":
        degrees, doubled = transform.n_modes
        wider = SphericalTransform((degrees, 2 * doubled), transform.grid, transform.backend, "neuralop")
        return _through(wider, x, grid)
    latitudes, longitudes = (min(a, b) for a, b in zip(x.shape[2:], grid, strict=True))
    # As many degrees as the quadrature of the smaller grid takes exactly.
    degrees = latitudes if transform.grid == "legendre-gauss" else (latitudes + 1) // 2
    orders = min(degrees, (longitudes + 1) // 2)
    return _through(SphericalTransform((degrees, 2 * orders), transform.grid, transform.backend), x, grid)


def _as_neuralop(x: Tensor, grid: tuple[int, ...]) -> Tensor:
    if len(grid) == 1:
        return functional.interpolate(x, size=grid[0], mode="linear", align_corners=True)
    if len(grid) == 2:
        return functional.interpolate(x, size=grid, mode="bicubic", align_corners=True)
    axes = tuple(range(2, x.ndim))
    spectrum = torch.fft.rfftn(x, norm="forward", dim=axes)
    half = (*grid[:-1], grid[-1] // 2 + 1)
    moved = spectrum.new_zeros((*x.shape[:2], *half))
    counts = [min(a, b) for a, b in zip(half, spectrum.shape[2:], strict=True)]
    # From an axis the first floor(n/2) and the last ceil(n/2) coefficients, from the last axis the first n.
    ends = [(slice(0, n // 2), slice(-((n + 1) // 2), None)) for n in counts[:-1]]
    for cut in product(*ends, (slice(0, counts[-1]),)):
        where = (slice(None), slice(None), *cut)
        moved[where] = spectrum[where]
    return torch.fft.irfftn(moved, s=grid, norm="forward", dim=axes)
