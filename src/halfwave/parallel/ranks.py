"""Ranks: processes that work on one thing together, and how they exchange tensors.

All of them call the same collectives in the same order. A tensor on `meta` goes nowhere: its result is as large as it
would be, and the bytes are counted, which is how a plan is made without processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from halfwave.parallel.wire import record


@dataclass(frozen=True)
class Ranks:
    """`size` processes, of which this one is number `rank`; `group` is torch's, None for processes that are planned."""

    size: int
    rank: int
    group: Any = field(default=None, compare=False, repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Ranks:
        """Processes are not copied with what they work on."""
        return self

    @classmethod
    def of(cls, mesh: DeviceMesh) -> Ranks:
        """All processes of a mesh, in the order of its coordinates."""
        group = _group_of(mesh)
        return cls(dist.get_world_size(group), dist.get_rank(group), group)

    def exchange(self, x: Tensor, counts: Sequence[int], purpose: str = "modes") -> Tensor:
        """(Σ counts, ...) cut along its first axis: part q goes to process q. Returns (P, counts[rank], ...)."""
        own = counts[self.rank]
        row = x[:1].numel() * x.element_size() if len(x) else 0
        record(purpose, row * (len(x) - own))
        if self.size == 1:
            return x.unsqueeze(0)
        out = x.new_empty((self.size, own, *x.shape[1:]))
        if not x.is_meta:
            self._all_to_all(out, x, [own * row] * self.size, [count * row for count in counts])
        return out

    def collect(self, x: Tensor, counts: Sequence[int], purpose: str = "modes") -> Tensor:
        """Parts (counts[q], ...) of every process q, one after the other: (Σ counts, ...), the same in all."""
        own = x.numel() * x.element_size()
        record(purpose, own * (self.size - 1))
        if self.size == 1:
            return x
        shape = (sum(counts), *x.shape[1:])
        if x.is_meta:
            return x.new_empty(shape)
        row = x.new_empty((1, *x.shape[1:])).numel() * x.element_size()
        out = x.new_empty(shape)
        copies = x.contiguous().expand(self.size, *x.shape).contiguous()
        self._all_to_all(out, copies, [count * row for count in counts], [own] * self.size)
        return out

    def total(self, x: Tensor, purpose: str = "sums") -> Tensor:
        """The sum over all processes, a new tensor, the same in all."""
        return self._reduced(x, dist.ReduceOp.SUM, purpose)

    def largest(self, x: Tensor, purpose: str = "sums") -> Tensor:
        """The maximum over all processes."""
        return self._reduced(x, dist.ReduceOp.MAX, purpose)

    def _reduced(self, x: Tensor, how: Any, purpose: str) -> Tensor:
        if self.size == 1:
            return x
        out = x.detach().contiguous().clone()
        record(purpose, 2 * (self.size - 1) * out.numel() * out.element_size() // self.size)
        if not out.is_meta:
            dist.all_reduce(out, how, group=self.group)
        return out

    def _all_to_all(self, out: Tensor, x: Tensor, received: list[int], sent: list[int]) -> None:
        """As bytes: nothing is added up on the way, and every format travels."""
        flat = [t.contiguous().view(-1).view(torch.uint8) for t in (out, x)]
        dist.all_to_all_single(flat[0], flat[1], received, sent, group=self.group)


def _group_of(mesh: DeviceMesh) -> Any:
    if mesh.ndim == 1:
        return mesh.get_group()
    if mesh.mesh_dim_names is not None:
        return mesh._flatten().get_group()
    if mesh.mesh.flatten().tolist() != list(range(dist.get_world_size())):
        raise ValueError(f"a mesh of {mesh.ndim} dimensions needs names (mesh_dim_names), unless it has all processes")
    return dist.group.WORLD
