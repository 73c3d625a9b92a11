"""Which part of each field a process has, and how figures of whole fields come of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from halfwave.domains import Domain


class FieldPart(Protocol):
    """What a loss asks for: figures of the whole field, from the part (B, C, *grid) that is here."""

    def largest(self, values: Tensor) -> Tensor:
        """max|v| of each sample, (B,), without a gradient."""
        ...

    def norm(self, terms: Sequence[Tensor], weights: Tensor | None) -> Tensor:
        """The root of the weighted sum of squares of all terms, (B,)."""
        ...

    def weights(self, domain: Domain, grid: tuple[int, ...]) -> Tensor | None:
        """The domain's weights at the points that are here."""
        ...

    def gradient(self, domain: Domain, u: Tensor) -> tuple[Tensor, ...]:
        """Components of the gradient at the points that are here."""
        ...


@dataclass(frozen=True)
class WholeField:
    """Every process has all of its fields."""

    def largest(self, values: Tensor) -> Tensor:
        return torch.linalg.vector_norm(values.detach(), math.inf, dim=tuple(range(1, values.ndim)))

    def norm(self, terms: Sequence[Tensor], weights: Tensor | None) -> Tensor:
        """vector_norm has gradient 0 at 0, where the square root's would be NaN."""
        root = None if weights is None else weights.to(terms[0]).sqrt()
        norms = [torch.linalg.vector_norm((u if root is None else u * root).flatten(1), dim=1) for u in terms]
        return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), dim=0)

    def weights(self, domain: Domain, grid: tuple[int, ...]) -> Tensor | None:
        return domain.weights(grid)

    def gradient(self, domain: Domain, u: Tensor) -> tuple[Tensor, ...]:
        return domain.gradient(u)


WHOLE = WholeField()
