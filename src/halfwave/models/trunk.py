"""What FNO, SFNO and GINO share: lifting -> blocks -> projection on a grid, built from one object.

The constructors take neuraloperator's flat arguments; here they are grouped once, as `TrunkSettings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from halfwave.models.arguments import check_counts
from halfwave.models.base import NeuralOperator
from halfwave.models.block import BlockSettings, FNOBlock, build_blocks, run_blocks, set_embeddings
from halfwave.models.embeddings import PositionalEmbedding, build_embedding
from halfwave.models.padding import DomainPadding
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.scaling import Factors, layer_shapes, total_factors
from halfwave.spectral import SpectralConv, Transform, WeightSettings


@dataclass(frozen=True)
class TrunkSettings:
    """Sizes and parts of a trunk.

    Attributes:
        hidden_channels, n_layers: width and number of the blocks.
        lifting_ratio, projection_ratio: hidden width of the two outer MLPs, relative to the blocks'.
        blocks: what the blocks are made of.
        transform, weights: of their convolutions.
        factors: what each block multiplies the grid by; None for blocks that keep it.
    """

    hidden_channels: int
    n_layers: int
    lifting_ratio: float
    projection_ratio: float
    blocks: BlockSettings
    transform: Transform
    weights: WeightSettings
    factors: Sequence[Factors | None] | None = None

    def __post_init__(self) -> None:
        check_counts(hidden_channels=self.hidden_channels, n_layers=self.n_layers)

    def build_lifting(self, in_channels: int) -> ChannelMLP:
        return self._mlp(in_channels, self.lifting_ratio, self.hidden_channels)

    def build_blocks(self) -> nn.ModuleList:
        return build_blocks(self._conv, self.n_layers, self.blocks, self.factors)

    def build_projection(self, out_channels: int) -> ChannelMLP:
        return self._mlp(self.hidden_channels, self.projection_ratio, out_channels)

    def _mlp(self, in_channels: int, ratio: float, out_channels: int) -> ChannelMLP:
        hidden = int(ratio * self.hidden_channels)
        return ChannelMLP(in_channels, hidden, out_channels, non_linearity=self.blocks.non_linearity)

    def _conv(self) -> SpectralConv:
        return SpectralConv.of(self.hidden_channels, self.hidden_channels, self.transform, self.weights)


class GridOperator(NeuralOperator):
    """A trunk from fields to fields on one grid, with coordinates appended before it and padding around its blocks."""

    axis_names: ClassVar[str | None] = None
    """What its grid axes are called, where they have names."""

    def build_trunk(
        self,
        in_channels: int,
        out_channels: int,
        trunk: TrunkSettings,
        embedding: str | Mapping[str, Any] | PositionalEmbedding | None,
        padding: DomainPadding,
    ) -> None:
        """The modules, in the order in which their weights are drawn."""
        check_counts(in_channels=in_channels, out_channels=out_channels)
        self.in_channels, self.n_dim = in_channels, trunk.transform.dim
        self.positional_embedding = build_embedding(embedding)
        self.padding = padding
        self.scaling = total_factors(trunk.factors or (), self.n_dim)
        appended = self.positional_embedding.channels(self.n_dim) if self.positional_embedding else 0
        self.lifting = trunk.build_lifting(in_channels + appended)
        self.blocks = trunk.build_blocks()
        self.projection = trunk.build_projection(out_channels)

    def forward(
        self, x: Tensor, output_shape: tuple[int, ...] | Sequence[tuple[int, ...] | None] | None = None
    ) -> Tensor:
        """(B, in_channels, *grid) to (B, out_channels, *grid), on any grid with as many axes as the model has modes.

        `x` is real, of any floating-point dtype, on the device of the weights; the answer is fp32, or as wide as the
        weights. `output_shape`, one size for each axis, is the grid of the answer where that is another; a list gives
        one (or None) for each block. ValueError for another number of channels or axes.
        """
        x = self.receive(x, self.in_channels, self.n_dim, self.axis_names)
        shapes = layer_shapes(output_shape, len(self.blocks), self.n_dim)
        v = self.positional_embedding(x) if self.positional_embedding else x
        v = run_blocks(self.blocks, self.padding.pad(self.lifting(v)), shapes)
        # Blocks that were asked for a grid tell by it how far the padding was scaled.
        v = self.padding.unpad(v, tuple(x.shape[2:]), None if any(shapes) else self.scaling)
        out: Tensor = self.projection(v)
        return self.answer(out)

    @property
    def transform(self) -> Transform:
        """Of its convolutions."""
        return self._convs()[0].transform

    @property
    def n_modes(self) -> tuple[int, ...]:
        """The kept modes of every block. Set them, up to `max_n_modes`, to use more or fewer of the weights."""
        return self.transform.n_modes

    @n_modes.setter
    def n_modes(self, n_modes: int | tuple[int, ...]) -> None:
        for conv in self._convs():
            conv.n_modes = n_modes
        kept = self.transform
        self.config = self.config | {
            "n_modes": list(kept.n_modes),
            "max_n_modes": list(kept.max_n_modes or kept.n_modes),
        }

    def _convs(self) -> list[SpectralConv]:
        return [block.conv for block in self.blocks if isinstance(block, FNOBlock)]

    def set_ada_in_embeddings(self, *embeddings: Tensor) -> None:
        """Give the norms ``"ada_in"`` their embedding: one for all, or two for each block in order."""
        set_embeddings(self.blocks, embeddings)
