"""FNO: the Fourier Neural Operator, lifting -> blocks -> projection, on any grid in 1, 2 or 3 dimensions."""

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
from halfwave.models.padding import PaddingMode, check_padding
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.scaling import Factor, layer_factors, layer_shapes, total_factors
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.modes import Layout, check_modes
from halfwave.spectral.plan import ComplexMode, Objective
from halfwave.spectral.ranks import Rank
from halfwave.spectral.transform_plan import Backend


class FNO(NeuralOperator):
    """The Fourier Neural Operator with the architecture and argument names of neuraloperator's.

    Shapes: (B, in_channels, *grid) to (B, out_channels, *grid) in fp32, for every grid with as many axes as `n_modes`.
    `model(x, output_shape=(...))` asks the last block to answer on another grid, a list asks each block.

    Args:
        n_modes: kept frequencies per axis, one to three integers; `model.n_modes = ...` changes them later.
        in_channels, out_channels: channels of input and output fields.
        hidden_channels: width of the blocks.
        n_layers: number of blocks.
        lifting_channel_ratio, projection_channel_ratio: hidden width of the two outer MLPs, relative to the blocks';
            0 makes one a linear map.
        positional_embedding: ``"grid"`` appends the coordinates in [0, 1) as channels, ``"sinusoidal"`` sines of them;
            a `GridEmbedding` or `SinusoidalEmbedding` has boundaries and frequencies of its own; None appends nothing.
        non_linearity: a name in `nonlinearity` or torch's function of it, after the sums of a block and in the outer
            MLPs; the MLPs of the blocks have a gelu in any case, as in neuraloperator.
        norm: ``"group_norm"``, ``"instance_norm"``, ``"ada_in"`` or None, see `field_norm`.
        ada_in_features: size of the embedding of ``"ada_in"``, which `set_ada_in_embeddings` gives it.
        complex_data: refused; give real and imaginary parts as channels.
        preactivation: nonlinearity and norm before the convolutions.
        fno_skip, channel_mlp_skip: ``"linear"``, ``"identity"``, ``"soft-gating"`` or None.
        use_channel_mlp: whether blocks have an MLP.
        channel_mlp_expansion: width of the blocks' MLP relative to the blocks; None leaves it out.
        channel_mlp_dropout: the share of the MLP's values that training drops.
        resolution_scaling_factor: what each block multiplies the grid by: a number, one per block, or lists per axis.
        domain_padding: fraction of the grid added as zeros to each axis, for non-periodic problems.
        domain_padding_mode: ``"symmetric"``, on both sides of an axis, or ``"one-sided"``, after its end.
        max_n_modes: modes that get weights, counted as `n_modes` are, for training that raises `n_modes` on the way.
        factorization, rank, separable, implementation: of the spectral weights, as in `SpectralConv`.
        contraction, complex_mode, memory_limit: of each layer's contraction, as in `SpectralConv`.
        precision: a `Policy` or the name of one; its stabilizer is neuraloperator's `stabilizer`.
        backend: of the Fourier transform, ``"gemm"``, ``"fft"`` or ``"auto"``.
        layout: ``"neuralop"`` repeats its treatment of odd and of other grids, for carried-over weights.
    """

    def __init__(
        self,
        n_modes: int | tuple[int, ...],
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
        domain_padding: float | Sequence[float] | None = None,
        domain_padding_mode: PaddingMode = "symmetric",
        max_n_modes: int | tuple[int, ...] | None = None,
        factorization: str | None = None,
        rank: Rank = 1.0,
        separable: bool = False,
        implementation: Implementation = "factorized",
        contraction: Objective = "flops",
        complex_mode: ComplexMode = "C",
        memory_limit: int | None = None,
        precision: str | Policy = "full",
        backend: Backend = "auto",
        layout: Layout = "exact",
    ) -> None:
        super().__init__()
        modes = check_modes(n_modes)
        check_counts(in_channels=in_channels, out_channels=out_channels, hidden_channels=hidden_channels)
        check_counts(n_layers=n_layers)
        refuse_complex(complex_data)
        self.n_dim = len(modes)
        self.in_channels = in_channels
        self.positional_embedding = build_embedding(positional_embedding)
        self.padding = check_padding(domain_padding, domain_padding_mode, self.n_dim)
        factors = layer_factors(resolution_scaling_factor, n_layers, self.n_dim)
        self.scaling = total_factors(factors, self.n_dim)
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
                modes,
                max_n_modes=max_n_modes,
                factorization=factorization,
                rank=rank,
                separable=separable,
                implementation=implementation,
                contraction=contraction,
                complex_mode=complex_mode,
                memory_limit=memory_limit,
                backend=backend,
                layout=layout,
            ),
            n_layers,
            settings,
            factors,
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
        v = self.positional_embedding(x) if self.positional_embedding else x
        v = run_blocks(self.blocks, self.padding.pad(self.lifting(v)), shapes)
        # Blocks that were asked for a grid tell by it how far the padding was scaled.
        v = self.padding.unpad(v, tuple(x.shape[2:]), None if any(shapes) else self.scaling)
        out: Tensor = self.projection(v)
        return self.answer(out)

    @property
    def n_modes(self) -> tuple[int, ...]:
        """The kept modes of every block. Set them, up to `max_n_modes`, to use more or fewer of the weights."""
        return modes_of(self.blocks)

    @n_modes.setter
    def n_modes(self, n_modes: int | tuple[int, ...]) -> None:
        self.config = self.config | set_modes(self.blocks, n_modes)

    def set_ada_in_embeddings(self, *embeddings: Tensor) -> None:
        """Give the norms ``"ada_in"`` their embedding: one for all, or two for each block in order."""
        set_embeddings(self.blocks, embeddings)
