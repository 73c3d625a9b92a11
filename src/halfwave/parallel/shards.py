"""Parameters of which every process has some rows: marked, gathered into those of one process, and cut again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.parallel.pieces import split_sizes
from halfwave.parallel.ranks import Ranks


@dataclass(frozen=True)
class RowShard:
    """Of a tensor with `rows` along its first axis, those that `torch.tensor_split` gives this process."""

    ranks: Ranks
    rows: int

    @property
    def counts(self) -> list[int]:
        return split_sizes(self.rows, self.ranks.size)

    def own(self, whole: Tensor) -> Tensor:
        """This process's rows: a view."""
        return whole.split(self.counts)[self.ranks.rank]

    def gather(self, rows: Tensor) -> Tensor:
        """The whole tensor from everybody's rows. All processes call this together."""
        return self.ranks.collect(rows.detach(), self.counts, "checkpoint")


def shard_of(parameter: Tensor) -> RowShard | None:
    """How a parameter is shared among processes; None for one that each has as a whole."""
    return getattr(parameter, "row_shard", None)


def shard_parameter(parameter: nn.Parameter, ranks: Ranks) -> nn.Parameter:
    """A new parameter of this process's rows, which says so."""
    shard = RowShard(ranks, len(parameter))
    own = nn.Parameter(shard.own(parameter.detach()).clone(), parameter.requires_grad)
    own.row_shard = shard  # type: ignore[attr-defined]
    return own


def whole_tensor(parameter: Tensor, tensor: Tensor) -> Tensor:
    """A tensor that belongs to a parameter (itself, a moment) with all of its rows."""
    shard = shard_of(parameter)
    return tensor if shard is None or not tensor.ndim else shard.gather(tensor)


def own_rows(parameter: Tensor, whole: Tensor) -> Tensor:
    """The rows of such a tensor that belong here."""
    shard = shard_of(parameter)
    return whole if shard is None or not whole.ndim else shard.own(whole).clone()


def gradient_norm(parameters: Iterable[Tensor]) -> Tensor:
    """The norm of the gradient of all parameters, in every process that of one process."""
    given = [p for p in parameters if p.grad is not None]
    shards = [shard for shard in map(shard_of, given) if shard is not None]
    own = [p.grad for p in given if shard_of(p) is not None]
    common = _square([p.grad for p in given if shard_of(p) is None])
    if not shards:
        return common.sqrt()
    return (common + shards[0].ranks.total(_square(own).to(common))).sqrt()


def clip_gradients(parameters: Iterable[Tensor], largest: float) -> Tensor:
    """Scale the gradients to a norm of at most `largest`, as `torch.nn.utils.clip_grad_norm_`; returns the norm."""
    given = list(parameters)
    norm = gradient_norm(given)
    gradients = [p.grad for p in given if p.grad is not None]
    torch._foreach_mul_(gradients, float((largest / (norm + 1e-6)).clamp(max=1.0)))
    return norm


def _square(gradients: list[Any]) -> Tensor:
    norms = torch._foreach_norm(gradients) if gradients else [torch.zeros(())]
    return torch.stack([norm.double() for norm in norms]).square().sum()


def as_one_process(module: nn.Module, name: str, shard: RowShard) -> None:
    """Make a sharded parameter of a module appear in its state dict as in that of one process, and load from it."""
    module.register_state_dict_post_hook(_GatherRows(name, shard))
    module.register_load_state_dict_pre_hook(_CutRows(name, shard))


@dataclass
class _GatherRows:
    name: str
    shard: RowShard

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
        state[prefix + self.name] = self.shard.gather(state[prefix + self.name])


@dataclass
class _CutRows:
    name: str
    shard: RowShard

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        if prefix + self.name in state:
            state[prefix + self.name] = self.shard.own(state[prefix + self.name])
