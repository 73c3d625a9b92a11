"""The truncated Fourier transform of an interpreted program: matrix products on views, and one transposition.

`gemm` begins with the last axis, whose negative frequencies are not kept: the fewest products. What it leaves are many
small products with few columns, by views that runtimes do not have. Here the first axis comes first: an inner axis is
(2K, 2N) x (.., 2N, rest), the last one (rows, 2N) x (2N, 2K), and between two of them nothing is moved. Pairs stand
inside of the modes, (K, 2), and outside of the points, (2, N); one transposition of a matrix makes the spectrum
mode-major. Synthesis runs the same steps backwards with the transposes, and takes the real part along the first axis.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from halfwave.numerics import portable
from halfwave.spectral.transform_plan import TransformPlan


def analyse(x: Tensor, plan: TransformPlan) -> Tensor:
    """(B, C, *grid) to (*K, 2, B, C)."""
    batch, channels = x.shape[:2]
    block, rest = plan.arith.load(x.reshape(batch * channels, plan.points)), plan.points
    for axis, size in enumerate(plan.grid[:-1]):
        matrix, rest = _inner(plan, axis), rest // size
        block = torch.matmul(matrix, block.reshape(-1, matrix.shape[1], rest))
    last = _last(plan)
    block = block.reshape(-1, last.shape[0]) @ last
    spectrum = plan.arith.store(block).reshape(-1, 2 * plan.kept).t()
    return spectrum.reshape(*plan.counts, 2, batch, channels)


def synthesise(s: Tensor, plan: TransformPlan) -> Tensor:
    """(*K, 2, B, C) to (B, C, *grid)."""
    batch, channels = s.shape[-2:]
    last, rest = _last(plan), 1
    block = plan.arith.load(s.reshape(2 * plan.kept, batch * channels).t())
    block = block.reshape(-1, last.shape[1]) @ last.t()
    for axis in range(len(plan.grid) - 2, -1, -1):
        matrix, rest = _inner(plan, axis), rest * plan.grid[axis + 1]
        block = torch.matmul(matrix.t(), block.reshape(-1, matrix.shape[0], rest))
    return plan.arith.store(block).reshape(batch, channels, *plan.grid)


plain_analyse, plain_synthesise = analyse, synthesise


def _inner(plan: TransformPlan, axis: int) -> Tensor:
    """(2K, 2N) of an axis that is not the last, rows (k, pair) and columns (pair, n); (2K, N) of the first: reals."""

    def build() -> Tensor:
        blocks = plan.matrices()[axis].reshape(2, plan.counts[axis], plan.grid[axis], 2).permute(1, 0, 3, 2)
        return (blocks if axis else blocks[:, :, 0]).reshape(2 * plan.counts[axis], -1).contiguous()

    return _constant(plan, axis, build)


def _last(plan: TransformPlan) -> Tensor:
    """(2N, 2K) of the last axis, rows (pair, n) and columns (k, pair); (N, 2K) where it is the only one: reals."""

    def build() -> Tensor:
        real = plan.matrices()[-1].reshape(plan.grid[-1], 2, plan.counts[-1]).transpose(1, 2)
        if len(plan.grid) == 1:
            return real.reshape(-1, 2 * plan.counts[-1]).contiguous()
        cosines, minus_sines = real.unbind(2)
        imaginary = torch.stack([-minus_sines, cosines], dim=2)
        return torch.cat([real, imaginary]).reshape(-1, 2 * plan.counts[-1])

    return _constant(plan, len(plan.grid) - 1, build)


def _constant(plan: TransformPlan, axis: int, build: Callable[[], Tensor]) -> Tensor:
    """The matrix as a constant of the program; built by its operators where the grid is free."""
    mode = portable()
    if mode is None or mode.free_grid:
        return build()
    alone = axis == 0, axis == len(plan.grid) - 1
    return mode.constant(("ordered", plan.modes[axis], alone, plan.weighting, plan.arith, plan.device), build)
