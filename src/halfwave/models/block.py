"""One FNO block: v -> gelu( MLP( gelu( K v + W v ) ) + g v ), the architecture of neuraloperator's default.

K is the spectral convolution, W the linear skip, g the soft gating of the second skip. Everything but K is pointwise
and runs as one recomputed function, so a block keeps its input, K v and the truncated spectrum for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from halfwave.models.pointwise import ChannelLinear, ChannelMLP, PointwiseModule, apply_pointwise, channel_mlp
from halfwave.models.pointwise import mix_channels as mix
from halfwave.numerics import Arithmetic
from halfwave.precision import Policy, as_policy
from halfwave.spectral import SpectralConv

SkipName = Literal["linear", "identity", "soft-gating"]
SKIPS = ("linear", "identity", "soft-gating", None)


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


def _add_skip(arith: Arithmetic, kind: str | None, y: Tensor, x: Tensor, weights: list[Tensor]) -> Tensor:
    if kind is None:
        return y
    if kind == "identity":
        return arith.settle(y + x)
    weight = weights.pop(0)
    skipped = mix(weight, x) if kind == "linear" else weight.unsqueeze(1) * x
    return arith.settle(skipped.add_(y))


def _block(
    arith: Arithmetic,
    x: Tensor,
    y: Tensor,
    *weights: Tensor,
    skips: tuple[str | None, str | None],
    mlp: bool,
    activate: bool,
) -> Tensor:
    """Everything after the spectral convolution but the last GELU, on a slice: x the block's input, y = K x."""
    rest = list(weights)
    v = _add_skip(arith, skips[0], y, x, rest)
    if activate:
        v = arith.settle(nn.functional.gelu(v))
    # Without the MLP neuraloperator still applies the second nonlinearity; so do we, for its weights' sake.
    if mlp:
        v = channel_mlp(arith, v, *[rest.pop(0) for _ in range(4)])
        v = _add_skip(arith, skips[1], v, x, rest)
    return v


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
        function = partial(
            _block, skips=(self.skip.kind, self.mlp_skip.kind), mlp=self.mlp is not None, activate=self.activate
        )
        weights = [
            *self.skip.parameter_list(),
            *(self.mlp.parameter_list() if self.mlp is not None else ()),
            *self.mlp_skip.parameter_list(),
        ]
        return apply_pointwise(function, [x, y], weights, self.arithmetic(x.device), activate=self.activate)


def build_blocks(conv: Callable[[], SpectralConv], n_layers: int, **options: Any) -> nn.ModuleList:
    """`n_layers` blocks, each with a convolution of its own and these `options` of `FNOBlock`."""
    return nn.ModuleList(FNOBlock(conv(), **options, activate=i < n_layers - 1) for i in range(n_layers))
