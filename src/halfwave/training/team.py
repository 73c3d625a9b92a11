"""Team: the processes of a run, and what each of them has: all of the model and of its fields, or parts of both.

`Replicas` have other samples each (ddp, fsdp, or one process alone). `MeshTeam` has pieces of fields too: groups of
processes share every sample along the axes of its grid, and groups have other samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from halfwave.data import Normalizer, Split, fit_normalizers
from halfwave.domains import Domain
from halfwave.optimizers import distribute_moment
from halfwave.parallel import FieldPiece, GridLayout, MeshShape, Ranks, clip_gradients, own_rows, parallelize
from halfwave.parallel import whole_tensor as whole_rows
from halfwave.training.batches import InMemory, InPieces, Samples, held
from halfwave.training.config import TrainConfig
from halfwave.training.devices import Strategy, distribute, whole
from halfwave.training.operator import Operator
from halfwave.training.parts import WHOLE, FieldPart

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Team(Protocol):
    """What training asks of its processes."""

    @property
    def number(self) -> int:
        """Of the processes with other samples, which one this is."""
        ...

    @property
    def size(self) -> int:
        """How many have other samples."""
        ...

    @property
    def copies(self) -> int:
        """How many work on the same samples, and so know the same figures of them."""
        ...

    @property
    def averaged(self) -> int:
        """By how much the sum of all gradients is divided when they are exchanged."""
        ...

    def setup(self, operator: Operator) -> nn.Module:
        """The module to call in training; the operator's own model is changed where it has to be."""
        ...

    def synchronised(self, module: nn.Module, last: bool) -> Any:
        """A context for the backward pass of a batch, the last one of its update or not."""
        ...

    def clip(self, parameters: Iterable[nn.Parameter], largest: float) -> float:
        """Clip the gradients; their norm before."""
        ...

    def whole(self, parameter: Tensor, tensor: Tensor) -> Tensor:
        """A tensor of the optimizer's state as in one process. All processes call this together."""
        ...

    def own(self, parameter: Tensor, tensor: Tensor) -> Tensor:
        """What belongs here of such a tensor."""
        ...

    def samples(self, split: Split, in_memory: bool) -> Samples:
        """What this process reads of a split."""
        ...

    def part(self, grid: tuple[int, ...]) -> FieldPart:
        """What is here of fields on a whole grid."""
        ...

    def fit(self, split: Split) -> tuple[Normalizer, Normalizer]:
        """Normalizers of the fields of a split."""
        ...


@dataclass(frozen=True)
class Replicas:
    """Every process has whole fields; `strategy` says what it has of the model."""

    fabric: Fabric
    strategy: Strategy = "auto"
    copies: int = 1

    @property
    def number(self) -> int:
        return self.fabric.global_rank

    @property
    def size(self) -> int:
        return self.fabric.world_size

    @property
    def averaged(self) -> int:
        return self.fabric.world_size

    def setup(self, operator: Operator) -> nn.Module:
        return distribute(self.fabric, operator, self.strategy)

    def synchronised(self, module: nn.Module, last: bool) -> Any:
        """Gradients are exchanged between processes once per update, in the backward pass of its last batch."""
        if self.strategy == "fsdp":
            module.set_requires_gradient_sync(last)  # type: ignore[operator]
            return torch.enable_grad()
        return self.fabric.no_backward_sync(module, enabled=not last)  # type: ignore[arg-type]

    def clip(self, parameters: Iterable[nn.Parameter], largest: float) -> float:
        return float(whole(nn.utils.clip_grad_norm_(parameters, largest)))

    def whole(self, parameter: Tensor, tensor: Tensor) -> Tensor:
        return whole(tensor)

    def own(self, parameter: Tensor, tensor: Tensor) -> Tensor:
        return distribute_moment(parameter, tensor)

    def samples(self, split: Split, in_memory: bool) -> Samples:
        return held(split) if in_memory else split

    def part(self, grid: tuple[int, ...]) -> FieldPart:
        return WHOLE

    def fit(self, split: Split) -> tuple[Normalizer, Normalizer]:
        return fit_normalizers(split)


class MeshTeam:
    """Processes on a mesh of this `shape`. Gradients arrive as sums over all of them, in every backward pass."""

    averaged = 1

    def __init__(self, fabric: Fabric, shape: MeshShape) -> None:
        self.fabric, self.shape = fabric, shape

    @cached_property
    def _mesh(self) -> tuple[GridLayout, Ranks]:
        return self.shape.build(self.fabric.device.type)

    @property
    def layout(self) -> GridLayout:
        return self._mesh[0]

    @property
    def number(self) -> int:
        return self._mesh[1].rank

    @property
    def size(self) -> int:
        return self.shape.data

    @property
    def copies(self) -> int:
        return self.layout.ranks.size

    def setup(self, operator: Operator) -> nn.Module:
        operator.model = parallelize(operator.model, self.layout, data=self._mesh[1])
        return operator.to(self.fabric.device)

    def synchronised(self, module: nn.Module, last: bool) -> Any:
        return torch.enable_grad()

    def clip(self, parameters: Iterable[nn.Parameter], largest: float) -> float:
        return float(clip_gradients(parameters, largest))

    def whole(self, parameter: Tensor, tensor: Tensor) -> Tensor:
        return whole_rows(parameter, tensor)

    def own(self, parameter: Tensor, tensor: Tensor) -> Tensor:
        return own_rows(parameter, tensor)

    def samples(self, split: Split, in_memory: bool) -> Samples:
        piece, part = self._piece(split), self.part(split.grid)
        return InMemory(piece, part) if in_memory else InPieces(piece, part)

    def part(self, grid: tuple[int, ...]) -> FieldPart:
        return PartOfField(FieldPiece(self.layout, grid))

    def fit(self, split: Split) -> tuple[Normalizer, Normalizer]:
        return fit_normalizers(self._piece(split), gather=self._rows)

    def _piece(self, split: Split) -> Split:
        return split.piece(self.layout.piece_of(split.grid).bounds)

    def _rows(self, row: Tensor) -> Tensor:
        ranks = self.layout.ranks
        return ranks.collect(row[None].to(self.fabric.device), [1] * ranks.size, "sums").cpu()


@dataclass(frozen=True)
class PartOfField:
    """Figures of whole fields from pieces: a few numbers for each sample are exchanged."""

    field: FieldPiece

    def largest(self, values: Tensor) -> Tensor:
        return self.field.largest(WHOLE.largest(values))

    def norm(self, terms: Sequence[Tensor], weights: Tensor | None) -> Tensor:
        return torch.linalg.vector_norm(self.field.norms(WHOLE.norm(terms, weights)), dim=0)

    def weights(self, domain: Domain, grid: tuple[int, ...]) -> Tensor | None:
        found = domain.weights(self.field.grid)
        return None if found is None else self.field.cut(found)

    def gradient(self, domain: Domain, u: Tensor) -> tuple[Tensor, ...]:
        """By way of whole fields, one at a time: a derivative needs its neighbours. For figures, not for training."""
        return self.field.of_whole(u, domain.gradient)


def build_team(fabric: Fabric, config: TrainConfig) -> Team:
    """The processes of a config."""
    shape = config.mesh_shape
    return Replicas(fabric, config.strategy) if shape is None else MeshTeam(fabric, shape)
