"""Spectral weights: fp32 master pairs in mode-major layout, and how each kind contracts with a spectrum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.numerics import Arithmetic
from halfwave.spectral.contraction import contract_dense
from halfwave.spectral.contraction_settings import DEFAULT, ContractionSettings
from halfwave.spectral.execution import execute


def pair_parameter(pairs: Tensor) -> nn.Parameter:
    """A parameter of complex numbers as pairs: its axis -2 is (real part, imaginary part), and it says so."""
    return _marked(nn.Parameter(pairs))


def holds_pairs(parameter: Tensor) -> bool:
    """Whether axis -2 of a parameter is (real part, imaginary part). Wrappers that replace parameters lose the mark."""
    return getattr(parameter, "holds_pairs", False)


def mark_pairs(model: nn.Module) -> None:
    """Mark the parameters of a model's spectral weights again, where a wrapper has replaced them."""
    for module in model.modules():
        if isinstance(module, SpectralWeight):
            module._mark()


def _marked(parameter: nn.Parameter) -> nn.Parameter:
    parameter.holds_pairs = True  # type: ignore[attr-defined]
    return parameter


class SpectralWeight(nn.Module):
    """Weights W(k, c, o), complex, for every owned mode k; subclasses say how they are stored.

    Every parameter holds pairs (`pair_parameter`).
    """

    @abstractmethod
    def contract(self, x_hat: Tensor, window: tuple[slice, ...], arith: Arithmetic, weight_arith: Arithmetic) -> Tensor:
        """(*K, 2, B, C) to (*K, 2, B, O) with the weights of the modes in `window`."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The weights as one complex tensor (C, O, *K), as neuraloperator has them."""

    @abstractmethod
    def complex_state(self) -> dict[str, Tensor]:
        """The parameters as complex tensors, under the names and in the shapes of tltorch."""

    @abstractmethod
    def load_complex_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over the tensors that `complex_state` gives; ValueError where a shape does not fit."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SpectralWeight:
        """Every conversion sees a matrix: `to(memory_format=channels_last)` would take weights for images."""
        super()._apply(lambda t: fn(t.flatten(1)).view(t.shape) if t.ndim > 3 else fn(t), recurse)
        self._mark()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies of parameters are parameters without marks."""
        super().__setstate__(state)
        self._mark()

    def _mark(self) -> None:
        for parameter in self.parameters():
            _marked(parameter)


class DenseWeight(SpectralWeight):
    """Every weight a parameter of its own: `weight` of shape (*K, C, 2, O).

    A contraction of two tensors has one order and no small factors, so options B and C are the same here: the batched
    product of `contract_dense`. Option A, and a `memory_limit`, go through the planner.
    """

    def __init__(
        self,
        modes: tuple[int, ...],
        in_channels: int,
        out_channels: int,
        std: float,
        settings: ContractionSettings = DEFAULT,
    ) -> None:
        super().__init__()
        self.settings = settings
        # A complex normal with standard deviation `std` has std/sqrt(2) in each part.
        self.weight = pair_parameter(torch.randn(*modes, in_channels, 2, out_channels) * (std / 2**0.5))

    def contract(self, x_hat: Tensor, window: tuple[slice, ...], arith: Arithmetic, weight_arith: Arithmetic) -> Tensor:
        modes = x_hat.shape[:-3]
        weight = self.weight[window].reshape(prod(modes), *self.weight.shape[-3:])
        flat = x_hat.flatten(0, len(modes) - 1)
        if self.settings.complex_mode == "A" or self.settings.memory_limit is not None:
            plan = self.settings.plan("kbc,kco->kbo", [flat.movedim(-3, -2), weight], arith.format.name)
            y_hat = execute(plan, [flat, weight], arith, weight_arith, pair_axis=-3)
        else:
            y_hat = contract_dense(flat, weight, arith, weight_arith)
        return y_hat.view(*modes, *y_hat.shape[1:])

    def dense(self) -> Tensor:
        pairs = self.weight.movedim((-3, -1, -2), (0, 1, -1))
        return torch.view_as_complex(pairs.contiguous())

    @torch.no_grad()
    def set_dense(self, weight: Tensor) -> None:
        """Take over a complex tensor (C, O, *K)."""
        pairs = torch.view_as_real(weight.resolve_conj()).movedim((0, 1, -1), (-3, -1, -2))
        if pairs.shape != self.weight.shape:
            raise ValueError(f"weights of shape {tuple(weight.shape)} do not fit {tuple(self.weight.shape)}")
        self.weight.copy_(pairs)

    def complex_state(self) -> dict[str, Tensor]:
        return {"tensor": self.dense().detach()}

    def load_complex_state(self, state: Mapping[str, Tensor]) -> None:
        self.set_dense(state["tensor"])

    def extra_repr(self) -> str:
        *modes, channels, _, out = self.weight.shape
        return f"modes={tuple(modes)}, in={channels}, out={out}"
