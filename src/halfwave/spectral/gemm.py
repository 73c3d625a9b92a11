"""The truncated Fourier transform as matrix products: only kept modes are computed, nothing of full size is moved.

Analysis: the last axis is one tall product (rows, N) x (N, 2K); what it leaves, (.., N', 2, K), is already the
interleaved operand of the next axis, (2K', 2N') x (.., 2N', K). So every step is a product on a view, in fp32
accumulation, and the only permutation is that of the truncated block into mode-major order. Synthesis runs the same
steps backwards with the transposes.

The matrix of an inner axis serves every field. A batched product reads it in place, but for half products on a CPU,
which put it in order once for each field; there the operand is turned instead, where that moves fewer numbers, and the
step is one tall product as well: same sums, same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, compiling, kind_of
from halfwave.spectral.slicing import slices
from halfwave.spectral.transform_plan import TransformPlan

Matrices = tuple[Tensor, ...]


def analyse(x: Tensor, plan: TransformPlan) -> Tensor:
    """(B, C, *grid) to (*K, 2, B, C)."""
    if compiling():
        return plain_analyse(x, plan)
    batch, channels = x.shape[:2]
    arith, matrices = plan.arith, plan.matrices()
    fields = x.reshape(batch * channels, plan.points)
    spectrum = x.new_empty((plan.kept, 2, batch * channels), dtype=arith.storage)
    for part in slices(batch * channels, 4 * plan.points, x.device):
        block = _analyse_fields(arith.load(fields[part]), plan, matrices)
        by_axis = spectrum[..., part].unflatten(0, (plan.counts[0], -1))
        by_axis.copy_(arith.store(block).permute(2, 3, 1, 0))
    return spectrum.view(*plan.counts, 2, batch, channels)


def synthesise(s: Tensor, plan: TransformPlan) -> Tensor:
    """(*K, 2, B, C) to (B, C, *grid)."""
    if compiling():
        return plain_synthesise(s, plan)
    batch, channels = s.shape[-2:]
    arith = plan.arith
    # In order, once: a half product of expanded transposes would put every one of them in order for itself.
    matrices = tuple([matrix.t().contiguous() for matrix in plan.matrices()])
    spectrum = s.reshape(plan.kept, 2, batch * channels)
    fields = s.new_empty((batch * channels, plan.points), dtype=arith.storage)
    for part in slices(batch * channels, 4 * plan.points, s.device):
        # Gathered before it is transposed: rows that lie a power of two apart share a line of the cache.
        gathered = spectrum[..., part].contiguous()
        block = arith.load(gathered.permute(2, 1, 0).contiguous())
        arith.store_into(fields[part], _synthesise_fields(block, plan, matrices))
    return fields.view(batch, channels, *plan.grid)


def plain_analyse(x: Tensor, plan: TransformPlan) -> Tensor:
    """`analyse` by differentiable operators alone."""
    batch, channels = x.shape[:2]
    # Rows of the last axis straight away: a compiler that first sees another shape copies the field into it.
    block = _analyse_fields(plan.arith.load(x.reshape(-1, plan.grid[-1])), plan, plan.matrices())
    return plan.arith.store(block).permute(2, 3, 1, 0).reshape(*plan.counts, 2, batch, channels)


def plain_synthesise(s: Tensor, plan: TransformPlan) -> Tensor:
    """`synthesise` by differentiable operators alone."""
    batch, channels = s.shape[-2:]
    block = plan.arith.load(s.reshape(plan.kept, 2, batch * channels).permute(2, 1, 0))
    matrices = tuple([matrix.t() for matrix in plan.matrices()])
    return plan.arith.store(_synthesise_fields(block, plan, matrices)).reshape(batch, channels, *plan.grid)


def _analyse_fields(fields: Tensor, plan: TransformPlan, matrices: Matrices) -> Tensor:
    """F fields of any shape to (F, 2, K of the first axis, those of the others flattened), last axis first."""
    block = plan.arith.multiply(torch.mm, fields.reshape(-1, plan.grid[-1]), matrices[-1])
    kept = plan.counts[-1]
    for axis in range(len(plan.grid) - 2, -1, -1):
        operand = plan.arith.product(block).reshape(-1, 2 * plan.grid[axis], kept)
        block = _along_inner(plan.arith, matrices[axis], operand)
        kept *= plan.counts[axis]
    return block.unflatten(1, (2, -1)) if len(plan.grid) > 1 else block.reshape(-1, 2, kept, 1)


def _synthesise_fields(block: Tensor, plan: TransformPlan, matrices: Matrices) -> Tensor:
    """(F, 2, K flattened) to (F, grid flattened), last axis last, by the transposes of the matrices of analysis."""
    count = block.shape[0]
    kept = plan.kept
    for axis in range(len(plan.grid) - 1):
        kept //= plan.counts[axis]
        operand = block.reshape(-1, 2 * plan.counts[axis], kept)
        block = plan.arith.product(_along_inner(plan.arith, matrices[axis], operand))
    return plan.arith.multiply(torch.mm, block.reshape(-1, 2 * kept), matrices[-1]).reshape(count, plan.points)


def _along_inner(arith: Arithmetic, matrix: Tensor, operand: Tensor) -> Tensor:
    """A matrix (O, I) times each (I, n) of (F, I, n): (F, O, n), of which the last two axes may lie turned."""
    if _turns(arith, matrix, operand):
        rows = operand.transpose(1, 2).reshape(-1, operand.shape[1])
        return arith.multiply(torch.mm, rows, matrix.t()).unflatten(0, (-1, operand.shape[2])).transpose(1, 2)
    # bmm with an expanded matrix reads the big operand in place; matmul would fold it by transposing.
    return arith.multiply(torch.bmm, matrix.expand(operand.shape[0], -1, -1), operand)


def _turns(arith: Arithmetic, matrix: Tensor, operand: Tensor) -> bool:
    """Whether turning operand and result moves fewer numbers than a copy of the matrix for each field."""
    native_half = arith.format.half and arith.how == "native" and kind_of(matrix.device) == "cpu"
    return native_half and operand.shape[2] * sum(matrix.shape) < matrix.numel()
