"""Shells: the rows of a model's parameters that are stored alike, and what a change of each does to the answer.

A row is what one scale belongs to: the matrix of one mode of a spectral convolution, or one output channel of another
layer. A shell has the modes of one frequency |k| = max_j |k_j| (of one degree on the sphere), or all rows of a
parameter. With g = ∂(s·f/||f||)/∂w for random signs s, a change δ of the weights moves the answer by
E (g·δ)² = Σ E(g²) δ² if the δ are as good as independent, which errors of rounding are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from halfwave.certificates.answers import Inputs, call, parts
from halfwave.models import trial_run
from halfwave.spectral import DenseWeight, DepthwiseWeight, FourierTransform, SpectralConv

PROBES = 2


@dataclass(frozen=True)
class WeightRows:
    """How a parameter falls into rows and shells.

    Attributes:
        name: of the parameter.
        shells: (rows,) the number of each row's shell, 0 where there is one.
        shape: of one row: (C, 2, O) of a spectral weight, (2, C) of a depthwise one, else as it is.
        by_mode: whether shells are frequencies.
    """

    name: str
    shells: Tensor
    shape: tuple[int, ...]
    by_mode: bool

    @property
    def count(self) -> int:
        return len(self.shells)


def rows_of(model: nn.Module) -> dict[str, WeightRows]:
    """Of every parameter."""
    frequencies = {}
    for name, conv in model.named_modules():
        if isinstance(conv, SpectralConv) and isinstance(conv.weight, DenseWeight | DepthwiseWeight):
            frequencies[f"{name}.weight.weight".removeprefix(".")] = _frequencies(conv)
    return {name: _rows(name, tuple(p.shape), frequencies.get(name)) for name, p in model.named_parameters()}


def _rows(name: str, shape: tuple[int, ...], frequencies: Tensor | None) -> WeightRows:
    if frequencies is not None:
        return WeightRows(name, frequencies.flatten(), shape[frequencies.ndim :], True)
    leading = 1 if len(shape) > 1 else 0
    return WeightRows(name, torch.zeros(prod(shape[:leading]), dtype=torch.long), shape[leading:], False)


def _frequencies(conv: SpectralConv) -> Tensor:
    """max_j |k_j| of every mode with weights: -floor(n/2) .. along all axes but the last, 0 .. along that."""
    sizes = conv.transform.weight_modes
    axes = [torch.arange(size) for size in sizes]
    if isinstance(conv.transform, FourierTransform):
        axes = [axis - size // 2 for axis, size in zip(axes[:-1], sizes[:-1], strict=True)] + axes[-1:]
    return torch.stack(torch.meshgrid(*axes, indexing="ij")).abs().amax(0)


def gradients(model: nn.Module, x: Inputs, probes: int, use: Callable[[int, dict[str, Tensor]], None]) -> None:
    """Call `use(sample, g by parameter)` for every sample and probe; the model is the exact one."""
    signs = torch.Generator().manual_seed(0)
    names, parameters = zip(*model.named_parameters(), strict=True)
    with trial_run(model), torch.enable_grad(), torch.compiler.set_stance("force_eager"):
        for sample, part in enumerate(parts(x, 1)):
            for _ in range(probes):
                answer = call(model, part)
                sign = 2 * torch.randint(0, 2, answer.shape, generator=signs).to(answer) - 1
                score = (sign * answer).sum() / answer.detach().norm().clamp(min=1e-300)
                found = torch.autograd.grad(score, parameters, allow_unused=True)
                use(sample, {n: g.double() for n, g in zip(names, found, strict=True) if g is not None})


def mean_squares(model: nn.Module, x: Inputs, probes: int = PROBES) -> dict[str, Tensor]:
    """E g² of every weight, over samples and probes."""
    totals = {name: torch.zeros(p.shape, dtype=torch.float64, device=p.device) for name, p in model.named_parameters()}
    count = len(x) * probes

    def add(_: int, found: dict[str, Tensor]) -> None:
        for name, gradient in found.items():
            totals[name] += gradient.square() / count

    gradients(model, x, probes, add)
    return totals


def predict_change(model: nn.Module, x: Inputs, changes: dict[str, Tensor], probes: int = PROBES) -> Tensor:
    """The expected relative change (N,) of each answer by these changes of the weights."""
    squares = torch.zeros(len(x), dtype=torch.float64)

    def add(sample: int, found: dict[str, Tensor]) -> None:
        squares[sample] += sum(float((g.cpu() * changes[name]).square().sum()) for name, g in found.items()) / probes

    gradients(model, x, probes, add)
    return squares.sqrt()
