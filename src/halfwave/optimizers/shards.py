"""Moments of parameters in pieces (FSDP): the shards of the parameter, without the axis of pairs where v has none."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor, zeros

from halfwave.spectral import holds_pairs


def sharded_squares(p: DTensor, dtype: torch.dtype) -> Tensor:
    """Zeros for the second moment of a parameter of pairs (..., 2, n): (..., n)."""
    shape = (*p.shape[:-2], p.shape[-1])
    return zeros(shape, dtype=dtype, device_mesh=p.device_mesh, placements=_moment_placements(p))


def sharded_rows(p: DTensor, shape: tuple[int, ...]) -> Tensor:
    """Zeros with the rows of a parameter that is shared along its first axis."""
    return zeros(shape, dtype=p.dtype, device_mesh=p.device_mesh, placements=p.placements)


def shard_moment(p: DTensor, moment: Tensor) -> Tensor:
    """A whole moment of `p`, first or second, or its scales, in the shards of `p` and on its device."""
    alike = moment.shape == p.shape or not holds_pairs(p)
    return distribute_tensor(moment.to(p.device), p.device_mesh, p.placements if alike else _moment_placements(p))


def _moment_placements(p: DTensor) -> list[Placement]:
    """Those of the parameter without its pair axis; a shard that cuts pairs in two leaves them whole."""
    found: list[Placement] = []
    for placement in p.placements:
        if not isinstance(placement, Shard) or placement.dim < p.ndim - 2:
            found.append(placement)
        else:
            found.append(Replicate() if placement.dim == p.ndim - 2 else Shard(placement.dim - 1))
    return found
