"""SFNO: the Spherical Fourier Neural Operator, an FNO whose convolutions are those of the sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halfwave.models.arguments import refuse_complex
from halfwave.models.block import BlockSettings, SkipName
from halfwave.models.embeddings import PositionalEmbedding
from halfwave.models.padding import check_padding
from halfwave.models.scaling import Factor, layer_factors
from halfwave.models.trunk import GridOperator, TrunkSettings
from halfwave.precision import Policy
from halfwave.spectral import Implementation, Layout, Rank, SphereGrid, SphericalTransform, WeightSettings


class SFNO(GridOperator):
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

    axis_names = "latitudes, longitudes"

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
        refuse_complex(complex_data)
        most = None if max_n_modes is None else _as_pair(max_n_modes)
        trunk = TrunkSettings(
            hidden_channels,
            n_layers,
            lifting_channel_ratio,
            projection_channel_ratio,
            BlockSettings(
                skip=fno_skip,
                mlp_skip=channel_mlp_skip,
                mlp_expansion=channel_mlp_expansion if use_channel_mlp else None,
                mlp_dropout=channel_mlp_dropout,
                non_linearity=non_linearity,
                norm=norm,
                ada_in_features=ada_in_features,
                preactivation=preactivation,
            ),
            SphericalTransform(_as_pair(n_modes), sht_grids, layout=layout, max_n_modes=most),
            WeightSettings(factorization, rank, separable, implementation),
            layer_factors(resolution_scaling_factor, n_layers, 2),
        )
        self.build_trunk(in_channels, out_channels, trunk, positional_embedding, check_padding(None, "symmetric", 2))
        self.set_precision(precision)


def _as_pair(n_modes: tuple[int, ...]) -> tuple[int, int]:
    """A tuple of two; the transform says what else is wrong with it."""
    if not isinstance(n_modes, (tuple, list)) or len(n_modes) != 2:
        raise ValueError(f"n_modes of an SFNO must be (degrees, twice the orders), got {n_modes!r}")
    return n_modes[0], n_modes[1]
