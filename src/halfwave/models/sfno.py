"""SFNO: the Spherical Fourier Neural Operator, an FNO whose convolutions are those of the sphere."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from halfwave.models.arguments import check_counts
from halfwave.models.base import NeuralOperator
from halfwave.models.block import SkipName, build_blocks
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.positions import append_grid
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv, SphericalTransform
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.legendre import SphereGrid
from halfwave.spectral.ranks import Rank


class SFNO(NeuralOperator):
    """The Spherical Fourier Neural Operator (Bonev et al. 2023) with the architecture of neuraloperator's.

    Shapes: (B, in_channels, H latitudes, W longitudes) to (B, out_channels, H, W) in fp32, for every H and W; latitudes
    run from the north pole to the south. The spectral weights depend on the degree alone, so the spectral convolution
    commutes with every rotation; coordinates as input channels (``"grid"``) do not.

    Args:
        n_modes: (degrees kept, twice the orders kept), as in neuraloperator.
        in_channels, out_channels: channels of input and output fields.
        hidden_channels: width of the blocks.
        n_layers: number of blocks.
        lifting_channel_ratio, projection_channel_ratio: hidden width of the two outer MLPs, relative to the blocks'.
        positional_embedding: ``"grid"`` appends j/H and k/W as channels, as neuraloperator does; None does not.
        fno_skip, channel_mlp_skip: ``"linear"``, ``"identity"``, ``"soft-gating"`` or None.
        channel_mlp_expansion: width of the blocks' MLP relative to the blocks; None leaves it out.
        sht_grids: latitudes of the fields, ``"equiangular"`` (poles included) or ``"legendre-gauss"``.
        factorization, rank, separable, implementation: of the spectral weights (per degree), as in `SpectralConv`.
        precision: a `Policy` or the name of one.
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
        positional_embedding: str | None = "grid",
        fno_skip: SkipName | None = "linear",
        channel_mlp_skip: SkipName | None = "soft-gating",
        channel_mlp_expansion: float | None = 0.5,
        sht_grids: SphereGrid = "equiangular",
        factorization: str | None = None,
        rank: Rank = 1.0,
        separable: bool = False,
        implementation: Implementation = "factorized",
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels, hidden_channels=hidden_channels)
        check_counts(n_layers=n_layers)
        if positional_embedding not in ("grid", None):
            raise ValueError(f"unknown positional_embedding {positional_embedding!r}: expected 'grid' or None")
        self.n_dim = 2
        self.in_channels = in_channels
        self.positional_embedding = positional_embedding
        transform = SphericalTransform(_as_pair(n_modes), sht_grids)
        lifted = in_channels + (self.n_dim if positional_embedding else 0)
        self.lifting = ChannelMLP(lifted, int(lifting_channel_ratio * hidden_channels), hidden_channels)
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
            skip=fno_skip,
            mlp_skip=channel_mlp_skip,
            mlp_expansion=channel_mlp_expansion,
        )
        self.projection = ChannelMLP(hidden_channels, int(projection_channel_ratio * hidden_channels), out_channels)
        self.set_precision(precision)

    def forward(self, x: Tensor) -> Tensor:
        x = self.receive(x, self.in_channels, self.n_dim, "latitudes, longitudes")
        v = self.lifting(append_grid(x) if self.positional_embedding else x)
        for block in self.blocks:
            v = block(v)
        out: Tensor = self.projection(v)
        return self.answer(out)


def _as_pair(n_modes: tuple[int, ...]) -> tuple[int, int]:
    """A tuple of two; the transform says what else is wrong with it."""
    if not isinstance(n_modes, (tuple, list)) or len(n_modes) != 2:
        raise ValueError(f"n_modes of an SFNO must be (degrees, twice the orders), got {n_modes!r}")
    return n_modes[0], n_modes[1]
