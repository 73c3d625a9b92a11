"""Moments of parameters in pieces (FSDP): the shards of the parameter, without the axis of pairs where v has none."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor, zeros


def sharded_squares(p: DTensor, dtype: torch.dtype) -> Tensor:
    """Zeros for the second moment of a parameter of pairs (..., 2, n): (..., n)."""
    shape = (*p.shape[:-2], p.shape[-1])
    return zeros(shape, dtype=dtype, device_mesh=p.device_mesh, placements=_moment_placements(p))


def shard_moment(p: DTensor, moment: Tensor) -> Tensor:
    """A whole moment of `p`, first or second, in the shards of `p` and on its device."""
    placements = p.placements if moment.shape == p.shape else _moment_placements(p)
    return distribute_tensor(moment.to(p.device), p.device_mesh, placements)


def _moment_placements(p: DTensor) -> list[Placement]:
    """Those of the parameter without its pair axis; a shard that cuts pairs in two leaves them whole."""
    found: list[Placement] = []
    for placement in p.placements:
        if not isinstance(placement, Shard) or placement.dim < p.ndim - 2:
            found.append(placement)
        else:
            found.append(Replicate() if placement.dim == p.ndim - 2 else Shard(placement.dim - 1))
    return found
