"""The truncated Fourier transform as matrix products: only kept modes are computed, nothing of full size is moved.

Analysis: the last axis is one tall product (rows, N) x (N, 2K); what it leaves, (.., N', 2, K), is already the
interleaved operand of the next axis, (2K', 2N') x (.., 2N', K). So every step is a product on a view, in fp32
accumulation, and the only permutation is that of the truncated block into mode-major order. Synthesis runs the same
steps backwards with the transposes.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic
from halfwave.spectral.matrices import MatrixKey, Weighting, transform_matrix
from halfwave.spectral.modes import AxisModes
from halfwave.spectral.slicing import slices


def analyse(x: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting) -> Tensor:
    """(B, C, *grid) to (*K, 2, B, C)."""
    batch, channels = x.shape[:2]
    matrices = _matrices(modes, arith, weighting, x.device)
    fields = x.reshape(batch * channels, -1)
    counts = [axis.count for axis in modes]
    spectrum = x.new_empty((prod(counts), 2, batch * channels), dtype=arith.storage)
    for part in slices(len(fields), 4 * fields.shape[1], x.device):
        block = _analyse_fields(arith.load(fields[part]), modes, matrices)
        spectrum[..., part] = arith.store(block).permute(2, 1, 0)
    return spectrum.view(*counts, 2, batch, channels)


def synthesise(s: Tensor, modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting) -> Tensor:
    """(*K, 2, B, C) to (B, C, *grid)."""
    batch, channels = s.shape[-2:]
    grid = [axis.size for axis in modes]
    matrices = _matrices(modes, arith, weighting, s.device)
    spectrum = s.reshape(-1, 2, batch * channels)
    fields = s.new_empty((batch * channels, prod(grid)), dtype=arith.storage)
    for part in slices(len(fields), 4 * prod(grid), s.device):
        block = arith.load(spectrum[..., part].permute(2, 1, 0).contiguous())
        fields[part] = arith.store(_synthesise_fields(block, modes, matrices))
    return fields.view(batch, channels, *grid)


def _matrices(
    modes: tuple[AxisModes, ...], arith: Arithmetic, weighting: Weighting, device: torch.device
) -> list[Tensor]:
    last = len(modes) - 1
    return [transform_matrix(MatrixKey(axis, i == last, weighting, arith, device)) for i, axis in enumerate(modes)]


def _analyse_fields(fields: Tensor, modes: tuple[AxisModes, ...], matrices: list[Tensor]) -> Tensor:
    """(F, grid flattened) to (F, 2, K flattened), last axis first."""
    count = len(fields)
    block = fields.reshape(-1, modes[-1].size) @ matrices[-1]
    kept = modes[-1].count
    for axis, matrix in zip(reversed(modes[:-1]), reversed(matrices[:-1]), strict=True):
        operand = block.view(-1, 2 * axis.size, kept)
        # bmm with an expanded matrix reads the big operand in place; matmul would fold it by transposing.
        block = torch.bmm(matrix.expand(len(operand), -1, -1), operand)
        kept *= axis.count
    return block.view(count, 2, kept)


def _synthesise_fields(block: Tensor, modes: tuple[AxisModes, ...], matrices: list[Tensor]) -> Tensor:
    """(F, 2, K flattened) to (F, grid flattened), last axis last."""
    count = len(block)
    kept = block.shape[2]
    for axis, matrix in zip(modes[:-1], matrices[:-1], strict=True):
        kept //= axis.count
        operand = block.view(-1, 2 * axis.count, kept)
        block = torch.bmm(matrix.t().expand(len(operand), -1, -1), operand)
    return (block.view(-1, 2 * kept) @ matrices[-1].t()).view(count, -1)
