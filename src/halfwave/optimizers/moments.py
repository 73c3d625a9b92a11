"""Moments of a parameter: how an optimizer keeps them between steps, and how a step reads and writes them.

| state | kept                                                                                  |
| ----- | ------------------------------------------------------------------------------------- |
| fp32  | numbers of the parameter's own dtype, changed in place                                 |
| bf16  | rounded at random                                                                     |
| 8bit  | codes in blocks with a scale each (`log_code`), rounded at random                     |

Blocks are parts of a parameter's rows along its first axis. A parameter whose rows are too short for them (a bias, a
small matrix) or which is not contiguous, or is shared among processes along another axis, keeps numbers of its own
dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import torch
from torch import Tensor

from halfwave.numerics import round_stochastically
from halfwave.optimizers.log_code import POSITIVE, SIGNED, SMALLEST_BLOCK, LogCode, block_length
from halfwave.spectral import holds_pairs

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

STATES = ("fp32", "bf16", "8bit")
FIRST, SECOND = "exp_avg", "exp_avg_sq"
_CODES = {FIRST: SIGNED, SECOND: POSITIVE}
_SCALE = "_scale"


class StoredMoment(Protocol):
    """A moment as (n, ...), of which a step takes some rows at a time."""

    @property
    def together(self) -> int:
        """Rows that have to be taken together, from a multiple of them on."""
        ...

    @property
    def draws(self) -> bool:
        """Whether writing needs random bits."""
        ...

    def rows(self, part: slice) -> StoredMoment: ...

    def load(self, dtype: torch.dtype) -> Tensor:
        """The numbers, to be changed in place."""
        ...

    def store(self, values: Tensor, generator: torch.Generator | None) -> None:
        """Keep what `load` gave and a step has changed."""
        ...


@dataclass(frozen=True)
class Numbers:
    """Floating-point numbers; in a narrower dtype than the parameter's they are rounded at random."""

    values: Tensor
    wide: torch.dtype
    together: int = 1

    @property
    def draws(self) -> bool:
        return self.values.dtype is not self.wide

    def rows(self, part: slice) -> Numbers:
        return Numbers(self.values[part], self.wide)

    def load(self, dtype: torch.dtype) -> Tensor:
        return self.values.to(dtype)

    def store(self, values: Tensor, generator: torch.Generator | None) -> None:
        if self.draws:
            self.values.copy_(round_stochastically(values.float(), generator))


@dataclass(frozen=True)
class Blocks:
    """Codes (blocks, L) and their scales (blocks,) of a moment whose rows have this `shape`."""

    codes: Tensor
    scales: Tensor
    shape: tuple[int, ...]
    code: LogCode
    draws: bool = True

    @property
    def together(self) -> int:
        length = self.codes.shape[1]
        return length // gcd(length, prod(self.shape))

    def rows(self, part: slice) -> Blocks:
        length, row = self.codes.shape[1], prod(self.shape)
        own = slice(part.start * row // length, part.stop * row // length)
        return Blocks(self.codes[own], self.scales[own], self.shape, self.code)

    def load(self, dtype: torch.dtype) -> Tensor:
        return self.code.decode(self.codes, self.scales, dtype).view(-1, *self.shape)

    def store(self, values: Tensor, generator: torch.Generator | None) -> None:
        codes, scales = self.code.encode(values.view(self.codes.shape), generator)
        self.codes.copy_(codes)
        self.scales.copy_(scales)


def new_moments(p: Tensor, format: str) -> dict[str, Tensor]:
    """Moments of zeros, by their names in the optimizer's state."""
    if format == "8bit" and _has_blocks(p):
        codes = {
            FIRST: torch.zeros_like(p, dtype=SIGNED.dtype, requires_grad=False),
            SECOND: _squares_like(p, POSITIVE.dtype),
        }
        scales = {f"{name}{_SCALE}": _scales_like(p, t) for name, t in codes.items()}
        return codes | scales
    dtype = torch.bfloat16 if format == "bf16" else p.dtype
    return {
        FIRST: torch.zeros_like(p, dtype=dtype, memory_format=torch.preserve_format, requires_grad=False),
        SECOND: _squares_like(p, dtype),
    }


def restored(state: dict[str, Any], format: str) -> dict[str, Tensor]:
    """The moments of a state of which torch has made every tensor one of the parameter's dtype, as they were."""
    if format == "bf16":
        return {name: state[name].bfloat16() for name in _CODES}
    return {name: state[name].to(code.dtype) for name, code in _CODES.items() if f"{name}{_SCALE}" in state}


def moment_of(state: dict[str, Tensor], name: str, shape: tuple[int, ...] | None, wide: torch.dtype) -> StoredMoment:
    """The moment called `name` of a state with local tensors, as rows of this `shape`; None leaves it as it is."""
    values, scales = state[name], state.get(f"{name}{_SCALE}")
    if scales is None:
        return Numbers(values if shape is None else values.view(-1, *shape), wide)
    assert shape is not None, "blocks are of contiguous parameters"
    scales = scales.view(-1)
    length = values.numel() // max(1, len(scales)) or 1
    return Blocks(values.view(-1, length), scales, shape, _CODES[name])


def in_blocks(state: dict[str, Tensor]) -> bool:
    return f"{FIRST}{_SCALE}" in state


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether this is a DTensor; its module takes as long to import as torch, and who has one has it."""
    return hasattr(tensor, "placements")


def distribute_moment(p: Tensor, moment: Tensor) -> Tensor:
    """A whole moment of `p`, first or second, or its scales, in the shards of `p` and on its device."""
    if not is_sharded(p) or not moment.ndim:
        return moment
    from halfwave.optimizers.shards import shard_moment

    return shard_moment(p, moment)


def _has_blocks(p: Tensor) -> bool:
    if is_sharded(p) and any(placement.is_shard() and not placement.is_shard(0) for placement in p.placements):
        return False
    numbers = (prod(p.shape[1:]), prod(_squares_shape(p)[1:]))
    first = p.ndim > (2 if holds_pairs(p) else 1)  # axis 0 is none of the pairs'
    return first and p.is_contiguous() and min(map(block_length, numbers)) >= SMALLEST_BLOCK


def _scales_like(p: Tensor, codes: Tensor) -> Tensor:
    """One for each block of a row, in the shards of the parameter: (rows, blocks)."""
    row = prod(codes.shape[1:])
    shape = (codes.shape[0], row // block_length(row))
    if not is_sharded(p):
        return torch.zeros(shape, dtype=p.dtype, device=p.device)
    from halfwave.optimizers.shards import sharded_rows

    return sharded_rows(p, shape)


def _squares_shape(p: Tensor) -> tuple[int, ...]:
    return (*p.shape[:-2], p.shape[-1]) if holds_pairs(p) else tuple(p.shape)


def _squares_like(p: Tensor, dtype: torch.dtype) -> Tensor:
    """Zeros for the second moment: one for each complex number, in the shards of the parameter."""
    if not holds_pairs(p):
        return torch.zeros_like(p, dtype=dtype, memory_format=torch.preserve_format, requires_grad=False)
    if not is_sharded(p):
        return torch.zeros(_squares_shape(p), dtype=dtype, device=p.device)
    from halfwave.optimizers.shards import sharded_squares

    return sharded_squares(p, dtype)
