"""What a layer sends by the formula, and what an FFT with transposes would send in its place.

A layer with K = K_1 · K' kept modes (K_1 along the first mode axis, of which a process has weights for k), B samples, C
channels in and O out, on P processes, with numbers of s bytes on the way in and t on the way back, sends in a training
step, forward and backward:

    2 B K' (s C + t O) · [ (K_1 - k) + (P - 1) k ]      bytes: pairs, to whom the rows belong, and own rows to all.

An FFT of a field sharded along its first axis makes the transforms of the other axes, transposes, so that each process
has the whole first axis of N_2 / P columns, and transposes back after it; the way back does the same. Each of the four
transposes of a step sends what belongs elsewhere, (P - 1)/P of a process's N_1 N_2 .. (N_d/2 + 1) / P complex numbers:
nothing is truncated on the way, as in the FFT libraries. One that cuts the other axes down to their kept modes first
sends N_1 / K_1 / P times what this layer sends: less than it from N_1 / K_1 processes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import nn

from halfwave.parallel.pieces import GridLayout, split_sizes
from halfwave.parallel.shards import shard_of
from halfwave.parallel.transform import ShardedTransform
from halfwave.spectral import FourierTransform, SpectralConv


@dataclass(frozen=True)
class LayerTraffic:
    """Bytes that one process sends in a training step for one spectral layer."""

    modes: int
    """Kept modes: what the layer sends."""
    transposes: int
    """What the four transposes of an FFT in fp32 would send; 0 on a grid with one axis, which has none to transpose."""

    @property
    def ratio(self) -> float:
        return self.modes / self.transposes if self.transposes else float("nan")


def plan_traffic(conv: SpectralConv, grid: tuple[int, ...], batch: int) -> LayerTraffic:
    """Of a layer of a parallel model on a whole (padded) grid, by the formula."""
    transform = conv.transform
    if not isinstance(transform, ShardedTransform):
        raise ValueError("a layer in one process sends nothing: expected one of a parallel model")
    layout, roles = transform.place.layout, conv.resolved(conv.masters.device)
    rows, own, columns = _rows(transform, grid, layout)
    numbers = conv.in_channels * roles.forward_transform.storage.itemsize
    numbers += conv.out_channels * roles.inverse_transform.storage.itemsize
    ranks = layout.ranks
    sent = 2 * batch * columns * numbers * ((rows - own) + (ranks.size - 1) * own)
    return LayerTraffic(sent, transposed_bytes(layout, grid, batch * (conv.in_channels + conv.out_channels)))


def transposed_bytes(layout: GridLayout, grid: tuple[int, ...], fields: int) -> int:
    """Two transposes of so many fields, there and back, in complex64: of an FFT of a field sharded along one axis."""
    if len(grid) < 2:
        return 0
    ranks, axis = layout.ranks, layout.axes[0]
    half = [*grid[:-1], grid[-1] // 2 + 1]
    other = 1 if axis == 0 else 0
    local = split_sizes(grid[axis], ranks.size)[ranks.rank]
    elsewhere = half[other] - split_sizes(half[other], ranks.size)[ranks.rank]
    rest = prod(n for i, n in enumerate(half) if i not in (axis, other))
    back = split_sizes(half[other], ranks.size)[ranks.rank] * (grid[axis] - local)
    return 8 * fields * rest * (local * elsewhere + back)


def _rows(transform: ShardedTransform, grid: tuple[int, ...], layout: GridLayout) -> tuple[int, int, int]:
    """Rows of the first mode axis, those of this process, and modes of the other axes."""
    inner = transform.inner
    counts = transform.counts_on(grid)
    if isinstance(inner, FourierTransform):
        columns = prod(axis.count for axis in inner.modes(grid)[1:])
    else:
        columns = inner.kept(grid)[1]
    return sum(counts), counts[layout.ranks.rank], columns


def gradient_bytes(model: nn.Module, size: int) -> int:
    """What one of `size` processes sends to sum up the gradients of the parameters that each has as a whole."""
    common = [p for p in model.parameters() if p.requires_grad and shard_of(p) is None]
    return sum(2 * (size - 1) * p.numel() * p.element_size() // size for p in common)
