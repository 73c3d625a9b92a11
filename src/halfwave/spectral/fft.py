"""The truncated Fourier transform by torch's FFT: the whole spectrum is computed, the kept modes are taken.

In a half format the transform is unnormalised, as in the authors' code, and only then scaled: rounded inputs, sums in
fp32, a cast to the format in which sums past its largest number become inf (fp16: 65504), then the division by N. On
CUDA, fp16 grids of powers of two run cuFFT in half precision itself. So naive half precision fails here as it fails on
a GPU; full precision is normalised as usual.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic
from halfwave.spectral.matrices import Weighting, frequencies, last_axis_weights
from halfwave.spectral.modes import AxisModes
from halfwave.spectral.slicing import slices


def analyse(x: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting) -> Tensor:
    """(B, C, *grid) to (*K, 2, B, C)."""
    batch, channels = x.shape[:2]
    grid = [axis.size for axis in modes]
    counts = [axis.count for axis in modes]
    fields = x.reshape(batch * channels, *grid)
    weights = _weights(modes, weighting, x.device, arith.storage)
    spectrum = x.new_empty((prod(counts), 2, len(fields)), dtype=arith.storage)
    for part in slices(len(fields), 8 * prod(grid), x.device):
        raw = torch.fft.rfftn(_operand(fields[part], modes, arith), dim=tuple(range(1, len(grid) + 1)))
        kept = _take(raw, modes, weighting)
        pairs = torch.view_as_real(kept).flatten(1, -2).permute(1, 2, 0)
        spectrum[..., part] = arith.store(arith.store(pairs) * weights)
    return spectrum.view(*counts, 2, batch, channels)


def synthesise(s: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting) -> Tensor:
    """(*K, 2, B, C) to (B, C, *grid)."""
    batch, channels = s.shape[-2:]
    grid = [axis.size for axis in modes]
    counts = [axis.count for axis in modes]
    weights = _weights(modes, weighting, s.device, arith.storage) / _doubling(modes, s.device, arith.storage)
    spectrum = s.reshape(-1, 2, batch * channels)
    fields = s.new_empty((batch * channels, *grid), dtype=arith.storage)
    for part in slices(len(fields), 8 * prod(grid), s.device):
        pairs = arith.store(arith.store(spectrum[..., part]) * weights).permute(2, 0, 1)
        wide = pairs.to(_wide(arith)).contiguous().view(-1, *counts, 2)
        full = _place(torch.view_as_complex(wide), modes, weighting)
        field = torch.fft.irfftn(full, s=grid, dim=tuple(range(1, len(grid) + 1)), norm="forward")
        fields[part] = arith.store(field)
    return fields.view(batch, channels, *grid)


def _wide(arith: Arithmetic) -> torch.dtype:
    return torch.float64 if arith.compute is torch.float64 else torch.float32


def _operand(fields: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic) -> Tensor:
    """Fields rounded to the format, in the dtype that the FFT runs in."""
    powers_of_two = all(axis.size & (axis.size - 1) == 0 for axis in modes)
    if fields.device.type == "cuda" and arith.storage is torch.float16 and powers_of_two:
        return fields.half()
    return arith.load(fields).to(_wide(arith))


def _weights(modes: tuple[AxisModes, ...], weighting: Weighting, device: torch.device, dtype: torch.dtype) -> Tensor:
    """w_k of the last axis over all kept modes, times 1/N of the inner axes for means; shape (K, 1, 1)."""
    inner = [axis.size for axis in modes[:-1]] if weighting == "mean" else []
    last = last_axis_weights(modes[-1], weighting) / prod(inner)
    return _over_modes(last, modes).to(device=device, dtype=dtype)


def _doubling(modes: tuple[AxisModes, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """irfft counts frequencies twice by itself: 2, or 1 for those that stand alone."""
    return _over_modes(last_axis_weights(modes[-1], "hermitian"), modes).to(device=device, dtype=dtype)


def _over_modes(last: Tensor, modes: tuple[AxisModes, ...]) -> Tensor:
    return last.repeat(prod(axis.count for axis in modes[:-1])).view(-1, 1, 1)


def _indices(modes: tuple[AxisModes, ...], weighting: Weighting, device: torch.device) -> list[Tensor]:
    """Positions of the kept frequencies of the inner axes in an FFT's order."""
    return [(frequencies(axis, weighting) % axis.size).to(device) for axis in modes[:-1]]


def _take(raw: Tensor, modes: tuple[AxisModes, ...], weighting: Weighting) -> Tensor:
    kept = raw[..., : modes[-1].count]
    for dim, index in enumerate(_indices(modes, weighting, raw.device), start=1):
        kept = kept.index_select(dim, index)
    return kept


def _place(kept: Tensor, modes: tuple[AxisModes, ...], weighting: Weighting) -> Tensor:
    """Zeros everywhere but at the kept frequencies; the last axis is padded by irfftn itself."""
    for dim, (axis, index) in enumerate(zip(modes[:-1], _indices(modes, weighting, kept.device), strict=True), start=1):
        shape = list(kept.shape)
        shape[dim] = axis.size
        kept = kept.new_zeros(shape).index_copy(dim, index, kept)
    return kept
