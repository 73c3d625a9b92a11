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

from halfwave.numerics import Arithmetic, kind_of
from halfwave.spectral.matrices import Weighting, last_axis_weights
from halfwave.spectral.modes import AxisModes
from halfwave.spectral.slicing import slices
from halfwave.spectral.transform_plan import TransformPlan


def analyse(x: Tensor, plan: TransformPlan) -> Tensor:
    """(B, C, *grid) to (*K, 2, B, C)."""
    batch, channels = x.shape[:2]
    fields = x.reshape(batch * channels, *plan.grid)
    spectrum = x.new_empty((plan.kept, 2, batch * channels), dtype=plan.arith.storage)
    for part in slices(batch * channels, 8 * plan.points, x.device):
        spectrum[..., part] = _analyse_fields(fields[part], plan)
    return spectrum.view(*plan.counts, 2, batch, channels)


def synthesise(s: Tensor, plan: TransformPlan) -> Tensor:
    """(*K, 2, B, C) to (B, C, *grid)."""
    batch, channels = s.shape[-2:]
    spectrum = s.reshape(plan.kept, 2, batch * channels)
    fields = s.new_empty((batch * channels, *plan.grid), dtype=plan.arith.storage)
    for part in slices(batch * channels, 8 * plan.points, s.device):
        plan.arith.store_into(fields[part], _synthesise_fields(spectrum[..., part], plan))
    return fields.view(batch, channels, *plan.grid)


def plain_analyse(x: Tensor, plan: TransformPlan) -> Tensor:
    """`analyse` by differentiable operators alone."""
    batch, channels = x.shape[:2]
    spectrum = _analyse_fields(x.reshape(batch * channels, *plan.grid), plan)
    return spectrum.reshape(*plan.counts, 2, batch, channels)


def plain_synthesise(s: Tensor, plan: TransformPlan) -> Tensor:
    """`synthesise` by differentiable operators alone."""
    batch, channels = s.shape[-2:]
    fields = _synthesise_fields(s.reshape(plan.kept, 2, batch * channels), plan)
    return plan.arith.store(fields).reshape(batch, channels, *plan.grid)


def _analyse_fields(fields: Tensor, plan: TransformPlan) -> Tensor:
    """(F, *grid) to (K flattened, 2, F), rounded before it is scaled and after."""
    arith = plan.arith
    raw = torch.fft.rfftn(_operand(fields, plan), dim=_grid_axes(plan))
    pairs = torch.view_as_real(_take(raw, plan)).flatten(1, -2).permute(1, 2, 0)
    weights = _mode_weights(plan.modes, plan.weighting).to(fields.device, arith.storage)
    return arith.store(arith.store(pairs) * weights)


def _synthesise_fields(spectrum: Tensor, plan: TransformPlan) -> Tensor:
    """(K flattened, 2, F) to (F, *grid), not rounded yet."""
    arith = plan.arith
    # irfft counts frequencies twice by itself, so what it adds is taken out beforehand.
    weights = _mode_weights(plan.modes, plan.weighting) / _mode_weights(plan.modes, "hermitian")
    weights = weights.to(spectrum.device, arith.storage)
    pairs = arith.store(arith.store(spectrum) * weights).permute(2, 0, 1)
    wide = pairs.to(_wide(arith)).reshape(-1, *plan.counts, 2).contiguous()
    full = _place(torch.view_as_complex(wide), plan)
    return torch.fft.irfftn(full, s=plan.grid, dim=_grid_axes(plan), norm="forward")


def _grid_axes(plan: TransformPlan) -> tuple[int, ...]:
    return tuple(range(1, len(plan.grid) + 1))


def _wide(arith: Arithmetic) -> torch.dtype:
    return torch.float64 if arith.compute is torch.float64 else torch.float32


def _operand(fields: Tensor, plan: TransformPlan) -> Tensor:
    """Fields rounded to the format, in the dtype that the FFT runs in."""
    arith = plan.arith
    powers_of_two = all(n & (n - 1) == 0 for n in plan.grid)
    if kind_of(fields.device) == "cuda" and arith.storage is torch.float16 and powers_of_two:
        return fields.half()
    return arith.load(fields).to(_wide(arith))


def _mode_weights(modes: tuple[AxisModes, ...], weighting: Weighting) -> Tensor:
    """w_k of the last axis over all kept modes, times 1/N of the inner axes for means; float64, shape (K, 1, 1)."""
    inner = prod([axis.size for axis in modes[:-1]]) if weighting == "mean" else 1
    last = last_axis_weights(modes[-1], weighting) / inner
    return last.repeat(prod([axis.count for axis in modes[:-1]])).view(-1, 1, 1)


def _runs(plan: TransformPlan, axis: int) -> list[tuple[int, int, int]]:
    """Kept frequencies of an inner axis as runs (position among the kept, position in an FFT's order, length).

    Frequencies below 0 sit at the end of an FFT's output: there are at most two runs.
    """
    modes = plan.modes[axis]
    first = modes.first + (modes.shift if plan.weighting == "hermitian" else 0)
    negative = min(modes.count, max(0, -first))
    runs = [(0, first % modes.size, negative), (negative, (first + negative) % modes.size, modes.count - negative)]
    return [run for run in runs if run[2] > 0]


def _take(raw: Tensor, plan: TransformPlan) -> Tensor:
    kept = raw[..., : plan.counts[-1]]
    for axis in range(len(plan.grid) - 1):
        pieces = [kept.narrow(axis + 1, place, length) for _, place, length in _runs(plan, axis)]
        kept = torch.cat(pieces, dim=axis + 1)
    return kept


def _place(kept: Tensor, plan: TransformPlan) -> Tensor:
    """Zeros everywhere but at the kept frequencies; the last axis is padded by irfftn itself."""
    for axis in range(len(plan.grid) - 1):
        pieces, at = [], 0
        for start, place, length in sorted(_runs(plan, axis), key=lambda run: run[1]):
            pieces += [_zeros(kept, axis + 1, place - at), kept.narrow(axis + 1, start, length)]
            at = place + length
        kept = torch.cat([*pieces, _zeros(kept, axis + 1, plan.grid[axis] - at)], dim=axis + 1)
    return kept


def _zeros(like: Tensor, axis: int, length: int) -> Tensor:
    return like.new_zeros([length if i == axis else n for i, n in enumerate(like.shape)])
