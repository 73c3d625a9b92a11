"""SFNO: the Spherical Fourier Neural Operator, an FNO whose convolutions are those of the sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from halfwave.models.arguments import check_counts, refuse_complex
from halfwave.models.base import NeuralOperator
from halfwave.models.block import BlockSettings, SkipName, build_blocks, run_blocks, set_embeddings
from halfwave.models.embeddings import PositionalEmbedding, build_embedding
from halfwave.models.incremental import modes_of, set_modes
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.scaling import Factor, layer_factors, layer_shapes
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv, SphericalTransform
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.legendre import SphereGrid
from halfwave.spectral.modes import Layout
from halfwave.spectral.ranks import Rank


class SFNO(NeuralOperator):
    """The Spherical Fourier Neural Operator (Bonev et al. 2023) with the architecture of neuraloperator's.

    Shapes: (B, in_channels, H latitudes, W longitudes) to (B, out_channels, H, W) in fp32, for every H and W; latitudes
    run from the north pole to the south. The spectral weights depend on the degree alone, so the spectral convolution
    commutes with every rotation; coordinates as input channels (``"grid"``) do not. `output_shape` is that of `FNO`.

    Args:
        n_modes: (degrees kept, twice the orders kept), as in neuraloperator; `model.n_modes = ...` changes them later.
        in_channels, out_channels: channels of input and output fields.
        hidden_channels: width of the blocks.
        n_layers: number of blocks.
        lifting_channel_ratio, projection_channel_ratio: hidden width of the two outer MLPs, relative to the blocks'.
        positional_embedding: ``"grid"`` appends j/H and k/W as channels, as neuraloperator does; the rest as in `FNO`.
        non_linearity, norm, ada_in_features, complex_data, preactivation, fno_skip, channel_mlp_skip, use_channel_mlp,
            channel_mlp_expansion, channel_mlp_dropout, resolution_scaling_factor: of the blocks, as in `FNO`.
        max_n_modes: modes that get weights, counted as `n_modes` are.
        sht_grids: latitudes of the fields, ``"equiangular"`` (poles included) or ``"legendre-gauss"``.
        factorization, rank, separable, implementation: of the spectral weights (per degree), as in `SpectralConv`.
        precision: a `Policy` or the name of one.
        layout: ``"neuralop"`` repeats how neuraloperator treats small and other grids, for carried-over weights.
    """

    def __init__(
        self,
        n_modes: tuple[int, int],
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        n_layers: int = 4,
        *,
        lifting_channel_ratio: float = 2,
        projection_channel_ratio: float = 2,
        positional_embedding: str | Mapping[str, Any] | PositionalEmbedding | None = "grid",
        non_linearity: Any = "gelu",
        norm: str | None = None,
        ada_in_features: int | None = None,
        complex_data: bool = False,
        preactivation: bool = False,
        fno_skip: SkipName | None = "linear",
        channel_mlp_skip: SkipName | None = "soft-gating",
        use_channel_mlp: bool = True,
        channel_mlp_expansion: float | None = 0.5,
        channel_mlp_dropout: float = 0.0,
        resolution_scaling_factor: float | Sequence[Factor] | None = None,
        max_n_modes: tuple[int, int] | None = None,
        sht_grids: SphereGrid = "equiangular",
        factorization: str | None = None,
        rank: Rank = 1.0,
        separable: bool = False,
        implementation: Implementation = "factorized",
        precision: str | Policy = "full",
        layout: Layout = "exact",
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels, hidden_channels=hidden_channels)
        check_counts(n_layers=n_layers)
        refuse_complex(complex_data)
        self.n_dim = 2
        self.in_channels = in_channels
        self.positional_embedding = build_embedding(positional_embedding)
        most = None if max_n_modes is None else _as_pair(max_n_modes)
        transform = SphericalTransform(_as_pair(n_modes), sht_grids, layout=layout, max_n_modes=most)
        settings = BlockSettings(
            skip=fno_skip,
            mlp_skip=channel_mlp_skip,
            mlp_expansion=channel_mlp_expansion if use_channel_mlp else None,
            mlp_dropout=channel_mlp_dropout,
            non_linearity=non_linearity,
            norm=norm,
            ada_in_features=ada_in_features,
            preactivation=preactivation,
        )
        sigma = settings.non_linearity
        appended = self.positional_embedding.channels(self.n_dim) if self.positional_embedding else 0
        self.lifting = ChannelMLP(
            in_channels + appended, int(lifting_channel_ratio * hidden_channels), hidden_channels, non_linearity=sigma
        )
        self.blocks = build_blocks(
            partial(
                SpectralConv,
                hidden_channels,
                hidden_channels,
                transform.n_modes,
                transform=transform,
                factorization=factorization,
                rank=rank,
                separable=separable,
                implementation=implementation,
            ),
            n_layers,
            settings,
            layer_factors(resolution_scaling_factor, n_layers, self.n_dim),
        )
        self.projection = ChannelMLP(
            hidden_channels, int(projection_channel_ratio * hidden_channels), out_channels, non_linearity=sigma
        )
        self.set_precision(precision)

    def forward(
        self, x: Tensor, output_shape: tuple[int, ...] | Sequence[tuple[int, ...] | None] | None = None
    ) -> Tensor:
        x = self.receive(x, self.in_channels, self.n_dim)
        shapes = layer_shapes(output_shape, len(self.blocks), self.n_dim)
        v = self.lifting(self.positional_embedding(x) if self.positional_embedding else x)
        out: Tensor = self.projection(run_blocks(self.blocks, v, shapes))
        return self.answer(out)

    @property
    def n_modes(self) -> tuple[int, ...]:
        """The kept (degrees, twice the orders). Set them, up to `max_n_modes`, to use more or fewer of the weights."""
        return modes_of(self.blocks)

    @n_modes.setter
    def n_modes(self, n_modes: tuple[int, int]) -> None:
        self.config = self.config | set_modes(self.blocks, _as_pair(n_modes))

    def set_ada_in_embeddings(self, *embeddings: Tensor) -> None:
        """Give the norms ``"ada_in"`` their embedding: one for all, or two for each block in order."""
        set_embeddings(self.blocks, embeddings)


def _as_pair(n_modes: tuple[int, ...]) -> tuple[int, int]:
    """A tuple of two; the transform says what else is wrong with it."""
    if not isinstance(n_modes, (tuple, list)) or len(n_modes) != 2:
        raise ValueError(f"n_modes of an SFNO must be (degrees, twice the orders), got {n_modes!r}")
    return n_modes[0], n_modes[1]
