"""One FNO block: v -> σ( MLP( σ( K v + W v ) ) + g v ), the architecture of neuraloperator's default.

K is the spectral convolution, W the linear skip, g the soft gating of the second skip, σ the nonlinearity (that of the
MLP is a gelu, as in neuraloperator). Everything but K is pointwise and runs as one recomputed function, so a block
keeps its input, K v and the truncated spectrum for the backward pass. A norm N is not pointwise and cuts it in two:

    after the sums   v -> σ( N( MLP( σ( N K v + W v ) ) + g v ) )
    preactivation    v -> MLP( N( σ( K u + W u ) ) ) + g u   with   u = N( σ(v) )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from halfwave.models.chain import Activate, Add, ChainStep, Gate, Mix
from halfwave.models.field_norm import AdaptiveNorm, build_norm
from halfwave.models.nonlinearity import nonlinearity_name
from halfwave.models.pointwise import (
    MASKS,
    ChannelLinear,
    ChannelMLP,
    Pointwise,
    PointwiseModule,
    apply_pointwise,
    mlp_steps,
)
from halfwave.models.scaling import Factors, scaled_grid
from halfwave.precision import Policy, as_policy
from halfwave.spectral import SpectralConv, resample

SkipName = Literal["linear", "identity", "soft-gating"]
SKIPS = ("linear", "identity", "soft-gating", None)
WEIGHTED = ("linear", "soft-gating")


@dataclass(frozen=True)
class BlockSettings:
    """What the blocks of a model are made of.

    Attributes:
        skip, mlp_skip: ``"linear"``, ``"identity"``, ``"soft-gating"`` or None, around the convolution and the MLP.
        mlp_expansion: width of the MLP relative to the block; None leaves the MLP out.
        mlp_dropout: the share of the MLP's values that training drops, p in [0, 1).
        non_linearity: the name of σ.
        norm: ``"group_norm"``, ``"instance_norm"``, ``"ada_in"`` or None, see `field_norm`.
        ada_in_features: size of the embedding of ada_in.
        preactivation: σ and the norm before the convolution.
    """

    skip: SkipName | None = "linear"
    mlp_skip: SkipName | None = "soft-gating"
    mlp_expansion: float | None = 0.5
    mlp_dropout: float = 0.0
    non_linearity: str = "gelu"
    norm: str | None = None
    ada_in_features: int | None = None
    preactivation: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "non_linearity", nonlinearity_name(self.non_linearity))
        if not 0 <= self.mlp_dropout < 1:
            raise ValueError(f"channel_mlp_dropout must be a probability below 1, got {self.mlp_dropout!r}")


DEFAULT = BlockSettings()


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


def _skip_steps(kind: str | None, into: str, plus: str, parameter: int) -> tuple[ChainStep, ...]:
    """into = skip(x) + plus; without a skip there is no step, and `into` is another name of `plus`."""
    if kind == "linear":
        return (Mix(into, "x", parameter, plus=plus),)
    if kind == "soft-gating":
        return (Gate(into, "x", parameter, plus=plus),)
    return (Add(into, "x", plus=plus),) if kind == "identity" else ()


def block_network(
    skips: tuple[str | None, str | None],
    mlp: bool,
    activate: bool,
    non_linearity: str = "gelu",
    ends_activated: bool = True,
    dropout: float = 0.0,
) -> Pointwise:
    """The pointwise steps after the spectral convolution: x is the block's input, y = K x.

    With `activate` there is a nonlinearity after the first sum, and, `ends_activated`, another at the end.
    """
    first, second = skips
    steps, value = _skip_steps(first, "sum", "y", 0), "sum" if first else "y"
    if activate:
        steps, value = (*steps, Activate("v", value, non_linearity)), "v"
    # Without the MLP neuraloperator still applies the second nonlinearity; so do we, for its weights' sake.
    if mlp:
        parameter = int(first in WEIGHTED)
        steps, value = (*steps, *mlp_steps(value, "mlp", parameter, dropout=dropout)), "mlp"
        steps, value = (*steps, *_skip_steps(second, "skipped", value, parameter + 4)), "skipped" if second else value
    if activate and ends_activated:
        steps = (*steps, Activate("out", value, non_linearity))
    masks = MASKS if mlp and dropout else ()
    return Pointwise(("x", "y", *masks) if first or (mlp and second) else ("y", *masks), steps)


def _activation(non_linearity: str) -> Pointwise:
    return Pointwise(("x",), (Activate("u", "x", non_linearity),))


class FNOBlock(PointwiseModule):
    """A spectral convolution, its linear skip, and a channel MLP with its soft-gated skip.

    Shapes: (B, C, *grid) to (B, C, *grid), in the storage dtype of the pointwise format, or to another grid: that of
    the input times `factors`, or `output_shape`. The skips then bring the input there (see `spectral.resampling`). The
    last block of a model has `activate=False`: no nonlinearity follows its sums, as in neuraloperator.
    """

    def __init__(
        self,
        conv: SpectralConv,
        settings: BlockSettings = DEFAULT,
        *,
        activate: bool = True,
        factors: Factors | None = None,
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        channels, expansion = conv.out_channels, settings.mlp_expansion
        self.settings, self.activate, self.factors = settings, activate, factors
        self.conv = conv
        self.skip = Skip(settings.skip, channels)
        self.mlp = ChannelMLP(channels, max(1, round(channels * expansion)), channels) if expansion else None
        self.mlp_skip = Skip(settings.mlp_skip if expansion else None, channels)
        # Fused with its norm where the nonlinearity follows it.
        last = settings.non_linearity if activate and not settings.preactivation else None
        norms = [build_norm(settings.norm, channels, after, settings.ada_in_features) for after in (None, last)]
        self.norms = None if norms[0] is None else nn.ModuleList(norm for norm in norms if norm is not None)
        self.policy = as_policy(precision)

    @property
    def plain(self) -> bool:
        """Whether the block is the pointwise function of K v and v of neuraloperator's default."""
        return self.norms is None and not self.settings.preactivation and self.factors is None

    def forward(self, x: Tensor, output_shape: tuple[int, ...] | None = None) -> Tensor:
        if self.settings.preactivation:
            x = self._normed(0, self._pointwise(_activation(self.settings.non_linearity), {"x": x}, []))
        grid = scaled_grid(tuple(x.shape[2:]), self.factors) if output_shape is None else output_shape
        y = self.conv(x, grid)
        if self.skip.kind or self.mlp_skip.kind:
            x = resample(x, grid, self.conv.transform)
        return self._preactivated(x, y) if self.settings.preactivation else self._postactivated(x, y)

    def set_embedding(self, first: Tensor, second: Tensor) -> None:
        """Embeddings of the two norms ``"ada_in"``."""
        for norm, embedding in zip(self.norms or (), (first, second), strict=True):
            assert isinstance(norm, AdaptiveNorm)
            norm.set_embedding(embedding)

    def _postactivated(self, x: Tensor, y: Tensor) -> Tensor:
        weights = [*self.skip.parameter_list(), *self._mlp_parameters()]
        network = self._network((self.skip.kind, self.mlp_skip.kind), self.mlp, ends_activated=self.norms is None)
        return self._normed(1, self._pointwise(network, {"x": x, "y": self._normed(0, y)}, weights))

    def _preactivated(self, x: Tensor, y: Tensor) -> Tensor:
        weights, skips = self.skip.parameter_list(), (self.skip.kind, self.mlp_skip.kind)
        if self.norms is None:
            network = self._network(skips, self.mlp, ends_activated=False)
            return self._pointwise(network, {"x": x, "y": y}, [*weights, *self._mlp_parameters()])
        y = self._pointwise(self._network((skips[0], None), None, ends_activated=False), {"x": x, "y": y}, weights)
        if self.mlp is None:
            return self._normed(1, y)
        network = block_network((None, skips[1]), True, False, dropout=self._dropout)
        return self._pointwise(network, {"x": x, "y": self._normed(1, y)}, self._mlp_parameters())

    def _network(self, skips: tuple[str | None, str | None], mlp: ChannelMLP | None, ends_activated: bool) -> Pointwise:
        sigma = self.settings.non_linearity
        return block_network(skips, mlp is not None, self.activate, sigma, ends_activated, self._dropout)

    def _pointwise(self, network: Pointwise, fields: dict[str, Tensor], weights: list[Tensor]) -> Tensor:
        last = list(fields.values())[-1]
        arith = self.arithmetic(last.device)
        if not network.steps:
            return arith.store(last)
        if MASKS[0] in network.fields:
            fields = fields | self._masks(last)
        return apply_pointwise(network, [fields[name] for name in network.fields], weights, arith)

    def _normed(self, which: int, v: Tensor) -> Tensor:
        if self.norms is None:
            return v
        normed: Tensor = self.norms[which](v)
        return normed

    def _mlp_parameters(self) -> list[Tensor]:
        return [] if self.mlp is None else [*self.mlp.parameter_list(), *self.mlp_skip.parameter_list()]

    @property
    def _dropout(self) -> float:
        return self.settings.mlp_dropout if self.training and self.mlp is not None else 0.0

    def _masks(self, like: Tensor) -> dict[str, Tensor]:
        """What dropout keeps of the MLP's hidden and last values: drawn once, for forward and backward."""
        assert self.mlp is not None
        widths = [len(bias) for bias in self.mlp.parameter_list()[1::2]]
        shapes = [(len(like), width, *like.shape[2:]) for width in widths]
        drawn = [torch.rand(shape, device=like.device) >= self.settings.mlp_dropout for shape in shapes]
        return dict(zip(MASKS, drawn, strict=True))

    def extra_repr(self) -> str:
        options = {name: value for name, value in vars(self.settings).items() if value != getattr(DEFAULT, name)}
        return ", ".join(f"{name}={value}" for name, value in options.items())


def build_blocks(
    conv: Callable[[], SpectralConv],
    n_layers: int,
    settings: BlockSettings,
    factors: Sequence[Factors | None] | None = None,
) -> nn.ModuleList:
    """`n_layers` blocks, each with a convolution of its own, and `factors` of its own where they are given."""
    own = [None] * n_layers if factors is None else factors
    return nn.ModuleList(FNOBlock(conv(), settings, activate=i < n_layers - 1, factors=f) for i, f in enumerate(own))


def run_blocks(blocks: nn.ModuleList, v: Tensor, shapes: Sequence[tuple[int, ...] | None]) -> Tensor:
    """One block after the other, each answering on the grid that is asked of it (None: its own)."""
    for block, shape in zip(blocks, shapes, strict=True):
        v = block(v) if shape is None else block(v, shape)
    return v


def set_embeddings(blocks: nn.ModuleList, embeddings: Sequence[Tensor]) -> None:
    """One embedding for every norm ``"ada_in"``, or two for each block in order."""
    own = list(embeddings) * (2 * len(blocks)) if len(embeddings) == 1 else list(embeddings)
    if len(own) != 2 * len(blocks):
        raise ValueError(f"expected one embedding, or {2 * len(blocks)} (two for each block), got {len(embeddings)}")
    for i, block in enumerate(blocks):
        assert isinstance(block, FNOBlock)
        if not isinstance(block.norms[0] if block.norms else None, AdaptiveNorm):
            raise ValueError(f"embeddings belong to norm 'ada_in', and this model has norm {block.settings.norm!r}")
        block.set_embedding(own[2 * i], own[2 * i + 1])
