"""One FNO block: v -> gelu( MLP( gelu( K v + W v ) ) + g v ), the architecture of neuraloperator's default.

K is the spectral convolution, W the linear skip, g the soft gating of the second skip. Everything but K is pointwise
and runs as one recomputed function, so a block keeps its input, K v and the truncated spectrum for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from halfwave.models.chain import Add, Gate, Gelu, Mix, Step
from halfwave.models.pointwise import (
    ChannelLinear,
    ChannelMLP,
    Pointwise,
    PointwiseModule,
    apply_pointwise,
    mlp_steps,
)
from halfwave.precision import Policy, as_policy
from halfwave.spectral import SpectralConv

SkipName = Literal["linear", "identity", "soft-gating"]
SKIPS = ("linear", "identity", "soft-gating", None)
WEIGHTED = ("linear", "soft-gating")


class Skip(nn.Module):
    """A skip connection W v (linear), g v (soft-gating, one factor per channel) or v (identity)."""

    def __init__(self, kind: SkipName | None, channels: int) -> None:
        super().__init__()
        if kind not in SKIPS:
            raise ValueError(f"unknown skip {kind!r}: expected one of {', '.join(map(str, SKIPS))}")
        self.kind = kind
        if kind == "linear":
            self.weight = ChannelLinear(channels, channels, bias=False).weight
        elif kind == "soft-gating":
            self.weight = nn.Parameter(torch.ones(channels))

    def parameter_list(self) -> list[Tensor]:
        return list(self.parameters())

    def extra_repr(self) -> str:
        return str(self.kind)


def _skip_steps(kind: str | None, into: str, plus: str, parameter: int) -> tuple[Step, ...]:
    """into = skip(x) + plus; without a skip there is no step, and `into` is another name of `plus`."""
    if kind == "linear":
        return (Mix(into, "x", parameter, plus=plus),)
    if kind == "soft-gating":
        return (Gate(into, "x", parameter, plus=plus),)
    return (Add(into, "x", plus=plus),) if kind == "identity" else ()


def _block(skips: tuple[str | None, str | None], mlp: bool, activate: bool) -> Pointwise:
    """Everything after the spectral convolution: x is the block's input, y = K x."""
    first, second = skips
    steps, value = _skip_steps(first, "sum", "y", 0), "sum" if first else "y"
    if activate:
        steps, value = (*steps, Gelu("v", value)), "v"
    # Without the MLP neuraloperator still applies the second nonlinearity; so do we, for its weights' sake.
    if mlp:
        parameter = int(first in WEIGHTED)
        steps, value = (*steps, *mlp_steps(value, "mlp", parameter)), "mlp"
        steps, value = (*steps, *_skip_steps(second, "skipped", value, parameter + 4)), "skipped" if second else value
    if activate:
        steps = (*steps, Gelu("out", value))
    return Pointwise(("x", "y") if first or (mlp and second) else ("y",), steps)


class FNOBlock(PointwiseModule):
    """A spectral convolution, its linear skip, and a channel MLP with its soft-gated skip.

    Shapes: (B, C, *grid) to (B, C, *grid), in the storage dtype of the pointwise format. The last block of a model has
    `activate=False`: no nonlinearity follows its sums, as in neuraloperator.
    """

    def __init__(
        self,
        conv: SpectralConv,
        *,
        skip: SkipName | None = "linear",
        mlp_skip: SkipName | None = "soft-gating",
        mlp_expansion: float | None = 0.5,
        activate: bool = True,
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        channels = conv.out_channels
        self.conv = conv
        self.skip = Skip(skip, channels)
        self.mlp = ChannelMLP(channels, max(1, round(channels * mlp_expansion)), channels) if mlp_expansion else None
        self.mlp_skip = Skip(mlp_skip if mlp_expansion else None, channels)
        self.activate = activate
        self.policy = as_policy(precision)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        network = _block((self.skip.kind, self.mlp_skip.kind), self.mlp is not None, self.activate)
        weights = [
            *self.skip.parameter_list(),
            *(self.mlp.parameter_list() if self.mlp is not None else ()),
            *self.mlp_skip.parameter_list(),
        ]
        fields, arith = {"x": x, "y": y}, self.arithmetic(x.device)
        if not network.steps:
            return arith.store(y)
        return apply_pointwise(network, [fields[name] for name in network.fields], weights, arith)


def build_blocks(conv: Callable[[], SpectralConv], n_layers: int, **options: Any) -> nn.ModuleList:
    """`n_layers` blocks, each with a convolution of its own and these `options` of `FNOBlock`."""
    return nn.ModuleList(FNOBlock(conv(), **options, activate=i < n_layers - 1) for i in range(n_layers))
