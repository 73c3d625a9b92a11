"""What all factorized spectral weights share: contraction, reconstruction, and the exchange with tltorch.

Every kind says which tensors it multiplies, as an equation for the planner; the rest
follows from that. Indices: k, l, m modes; b batch; c and o channels in and out; p to u ranks.
A separable weight W(k, c) acts on each channel by itself: it has no index o, and its result has c.

Parameters have their pair axis before the last: a factor of c and r is (C, 2, R), as dense weights are (*K, C, 2, O).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from math import prod, sqrt
from typing import Literal

import torch
from torch import Tensor, nn

from halfwave.numerics import Arithmetic, arithmetic, get_format
from halfwave.spectral.contraction import contract_dense
from halfwave.spectral.contraction_settings import DEFAULT, ContractionSettings
from halfwave.spectral.execution import execute
from halfwave.spectral.plan import ContractionPlan
from halfwave.spectral.weights import SpectralWeight, pair_parameter

Implementation = Literal["factorized", "reconstructed"]
IMPLEMENTATIONS = ("factorized", "reconstructed")
_MODES = "klm"


class FactorizedWeight(SpectralWeight):
    """W(k, c, o) or W(k, c) as a product of factors.

    Args:
        modes: shape of the mode axes.
        channels: (in, out), or (in,) for a separable weight.
        implementation: ``"factorized"`` multiplies the spectrum with the factors in the planned order,
            ``"reconstructed"`` makes the dense weights first.
        settings: of the contraction's plan. Dense weights that are made first have no `memory_limit` to hold.
    """

    def __init__(
        self,
        modes: tuple[int, ...],
        channels: tuple[int, ...],
        implementation: Implementation = "factorized",
        settings: ContractionSettings = DEFAULT,
    ) -> None:
        super().__init__()
        if implementation not in IMPLEMENTATIONS:
            raise ValueError(f"unknown implementation {implementation!r}: expected one of {', '.join(IMPLEMENTATIONS)}")
        if implementation == "reconstructed" and settings.memory_limit is not None:
            raise ValueError("memory_limit needs implementation 'factorized': reconstructed weights are one piece")
        self.shape = (*channels, *modes)
        self.separable = len(channels) == 1
        self.implementation = implementation
        self.settings = settings
        # Indices of the dense tensor (C, O, *K).
        self.indices = ("c" if self.separable else "co") + _MODES[: len(modes)]

    @abstractmethod
    def terms(self) -> list[tuple[str, Tensor]]:
        """The tensors that are multiplied, with their indices; pair axis before the last index."""

    @abstractmethod
    def named_factors(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters under tltorch's names."""

    @property
    def mode_indices(self) -> str:
        return "".join(i for i in self.indices if i in _MODES)

    def plan(self, x_hat: Tensor, window: tuple[slice, ...], arith: Arithmetic) -> ContractionPlan:
        """How the spectrum (*K, 2, B, C) meets the factors of the modes in `window`."""
        return self._plan(x_hat, self._windowed(window), arith)

    def _plan(self, x_hat: Tensor, terms: list[tuple[str, Tensor]], arith: Arithmetic) -> ContractionPlan:
        result = "c" if self.separable else "o"
        equation = ",".join([self.mode_indices + "bc", *(i for i, _ in terms)]) + f"->{self.mode_indices}b{result}"
        sizes = [(*x_hat.shape[:-3], *x_hat.shape[-2:]), *(_sizes(t) for _, t in terms)]
        return self.settings.plan_sizes(equation, sizes, arith.format.name, x_hat.device)

    def contract(self, x_hat: Tensor, window: tuple[slice, ...], arith: Arithmetic, weight_arith: Arithmetic) -> Tensor:
        if self.implementation == "reconstructed":
            return self._contract_reconstructed(x_hat, window, arith, weight_arith)
        terms = self._windowed(window)
        operands = [x_hat, *(t for _, t in terms)]
        return execute(self._plan(x_hat, terms, arith), operands, arith, weight_arith, pair_axis=-3)

    def _contract_reconstructed(
        self, x_hat: Tensor, window: tuple[slice, ...], arith: Arithmetic, weight_arith: Arithmetic
    ) -> Tensor:
        weight = self.reconstruct(window, weight_arith.storage)
        if self.separable:
            plan = self._plan(x_hat, [(self.mode_indices + "c", weight)], arith)
            return execute(plan, [x_hat, weight], arith, weight_arith, pair_axis=-3)
        modes = x_hat.shape[:-3]
        flat = weight.reshape(prod(modes), *weight.shape[-3:])
        y_hat = contract_dense(x_hat.flatten(0, len(modes) - 1), flat, arith, weight_arith)
        return y_hat.view(*modes, *y_hat.shape[1:])

    def reconstruct(self, window: tuple[slice, ...] | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The dense weights (*K, C, 2, O), or (*K, 2, C) for a separable weight, in fp32.

        In fp64 where the masters are, or where `dtype` asks for it.
        """
        terms = self._windowed(window or (slice(None),) * len(self.mode_indices))
        # The planner cuts along indices of its first operand: a factor that has modes.
        terms.sort(key=lambda term: -len(set(term[0]) & set(_MODES)))
        target = self.mode_indices + ("c" if self.separable else "co")
        if len(terms) == 1:
            indices, only = terms[0]
            assert indices == target
            return only
        full = get_format("fp64" if torch.float64 in (terms[0][1].dtype, dtype) else "fp32")
        device = terms[0][1].device
        equation = ",".join(i for i, _ in terms) + f"->{target}"
        operands = [t for _, t in terms]
        plan = replace(self.settings, memory_limit=None).plan(equation, operands, full.name)
        return execute(plan, operands, arithmetic(full, device.type))

    def dense(self) -> Tensor:
        pairs = self.reconstruct()
        order = (-2, -1) if self.separable else (-3, -1, -2)
        target = (-1, 0) if self.separable else (0, 1, -1)
        return torch.view_as_complex(pairs.movedim(order, target).contiguous())

    def complex_state(self) -> dict[str, Tensor]:
        return {
            name: torch.view_as_complex(p.detach().movedim(-2, -1).contiguous()) for name, p in self.named_factors()
        }

    @torch.no_grad()
    def load_complex_state(self, state: Mapping[str, Tensor]) -> None:
        for name, parameter in self.named_factors():
            pairs = torch.view_as_real(state[name].resolve_conj()).movedim(-1, -2)
            if pairs.shape != parameter.shape:
                raise ValueError(f"{name} of shape {tuple(state[name].shape)} does not fit {tuple(parameter.shape)}")
            parameter.copy_(pairs)

    def _windowed(self, window: tuple[slice, ...]) -> list[tuple[str, Tensor]]:
        """The terms with the modes in `window` only."""
        cut = dict(zip(self.mode_indices, window, strict=True))
        found = []
        for indices, tensor in self.terms():
            axes = indices[:-1] + " " + indices[-1]
            found.append((indices, tensor[tuple(cut.get(i, slice(None)) for i in axes)]))
        return found

    def extra_repr(self) -> str:
        kind = "depthwise" if self.separable else self.implementation
        return f"shape={self.shape}, {kind}, parameters={sum(p.numel() for p in self.parameters())}"


def normal_pairs(shape: tuple[int, ...], std: float) -> nn.Parameter:
    """A complex normal tensor with this standard deviation: std/sqrt(2) in each part."""
    return pair_parameter(torch.randn(*shape[:-1], 2, shape[-1]) * (std / sqrt(2)))


def numbered(factors: nn.ParameterList) -> list[tuple[str, nn.Parameter]]:
    return [(f"factors.factor_{n}", factor) for n, factor in enumerate(factors)]


def _sizes(pairs: Tensor) -> tuple[int, ...]:
    """Sizes of a pair tensor's indices."""
    return (*pairs.shape[:-2], pairs.shape[-1])
