"""The kinds of factorized spectral weights: CP, Tucker, tensor train, and depthwise; all as fp32 master pairs.

Ranks follow tensorly's rules (`ranks`), initialisation follows tltorch's: factors are normal with a standard deviation
for which the reconstructed weights have about `std`. Indices are explained in `factorized`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import prod, sqrt

import torch
from torch import Tensor, nn

from halfwave.spectral.contraction_settings import DEFAULT, ContractionSettings
from halfwave.spectral.factorized import FactorizedWeight, Implementation, normal_pairs, numbered
from halfwave.spectral.ranks import Rank, cp_rank, tt_rank, tucker_rank

RANKS = "pqstu"


class RankedWeight(FactorizedWeight):
    """A weight whose factors have ranks; `std` is about the standard deviation of the dense weights."""

    def __init__(
        self,
        modes: tuple[int, ...],
        channels: tuple[int, ...],
        std: float,
        rank: Rank = 1.0,
        implementation: Implementation = "factorized",
        settings: ContractionSettings = DEFAULT,
    ) -> None:
        super().__init__(modes, channels, implementation, settings)
        self.build_factors(std, rank)

    @abstractmethod
    def build_factors(self, std: float, rank: Rank) -> None:
        """Draw the parameters."""


class CPWeight(RankedWeight):
    """W(c, o, k, ...) = Σ_r w(r) A(c, r) B(o, r) F(k, r) ...: a sum of R products."""

    def build_factors(self, std: float, rank: Rank) -> None:
        self.rank = cp_rank(self.shape, rank)
        factor_std = (std / sqrt(self.rank)) ** (1 / len(self.shape))
        self.weights = nn.Parameter(torch.tensor([[1.0], [0.0]]).repeat(1, self.rank))
        self.factors = nn.ParameterList(normal_pairs((size, self.rank), factor_std) for size in self.shape)

    def terms(self) -> list[tuple[str, Tensor]]:
        return [("r", self.weights), *((i + "r", f) for i, f in zip(self.indices, self.factors, strict=True))]

    def named_factors(self) -> list[tuple[str, nn.Parameter]]:
        return [("weights", self.weights), *numbered(self.factors)]


class TuckerWeight(RankedWeight):
    """W(c, o, k, ...) = Σ_pqs... G(p, q, s, ...) A(c, p) B(o, q) F(k, s) ...: a core and a factor for each axis."""

    def build_factors(self, std: float, rank: Rank) -> None:
        self.rank = tucker_rank(self.shape, rank)
        factor_std = (std / sqrt(prod(self.rank))) ** (1 / (len(self.shape) + 1))
        self.core = normal_pairs(self.rank, factor_std)
        self.factors = nn.ParameterList(
            normal_pairs((size, r), factor_std) for size, r in zip(self.shape, self.rank, strict=True)
        )

    def terms(self) -> list[tuple[str, Tensor]]:
        ranks = RANKS[: len(self.shape)]
        factors = zip(self.indices, ranks, self.factors, strict=True)
        return [(ranks, self.core), *((i + r, f) for i, r, f in factors)]

    def named_factors(self) -> list[tuple[str, nn.Parameter]]:
        return [("core", self.core), *numbered(self.factors)]


class TTWeight(RankedWeight):
    """W(c, o, k, ...) = Σ_pq... G1(c, p) G2(p, o, q) G3(q, k, ...) ...: a train of cores (r, size, 2, r')."""

    def build_factors(self, std: float, rank: Rank) -> None:
        self.rank = tt_rank(self.shape, rank)
        factor_std = (std / prod(self.rank)) ** (1 / len(self.shape))
        ends = zip(self.rank[:-1], self.shape, self.rank[1:], strict=True)
        self.factors = nn.ParameterList(normal_pairs(shape, factor_std) for shape in ends)

    def terms(self) -> list[tuple[str, Tensor]]:
        first, *inner, last = self.factors
        found = [(self.indices[0] + RANKS[0], first[0])]
        for n, core in enumerate(inner):
            found.append((RANKS[n] + self.indices[n + 1] + RANKS[n + 1], core))
        return [*found, (RANKS[len(inner)] + self.indices[-1], last[..., 0].movedim(-1, -2))]

    def named_factors(self) -> list[tuple[str, nn.Parameter]]:
        return numbered(self.factors)


class DepthwiseWeight(FactorizedWeight):
    """W(k, c), every weight a parameter of its own: `weight` of shape (*K, 2, C)."""

    def __init__(
        self,
        modes: tuple[int, ...],
        channels: tuple[int, ...],
        std: float,
        settings: ContractionSettings = DEFAULT,
    ) -> None:
        super().__init__(modes, channels, "factorized", settings)
        self.weight = normal_pairs((*modes, *channels), std)

    def terms(self) -> list[tuple[str, Tensor]]:
        return [(self.mode_indices + "c", self.weight)]

    def named_factors(self) -> list[tuple[str, nn.Parameter]]:
        return [("tensor", self.weight)]

    def complex_state(self) -> dict[str, Tensor]:
        return {"tensor": self.dense().detach()}

    def load_complex_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_complex_state({"tensor": state["tensor"].movedim(0, -1)})
