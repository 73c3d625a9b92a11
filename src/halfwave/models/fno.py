"""FNO: the Fourier Neural Operator, lifting -> blocks -> projection, on any grid in 1, 2 or 3 dimensions.

TFNO is the same with factorized spectral weights, a fraction of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halfwave.models.arguments import refuse_complex
from halfwave.models.block import BlockSettings, SkipName
from halfwave.models.embeddings import PositionalEmbedding
from halfwave.models.padding import PaddingMode, check_padding
from halfwave.models.scaling import Factor, layer_factors
from halfwave.models.trunk import GridOperator, TrunkSettings
from halfwave.precision import Policy
from halfwave.spectral import (
    Backend,
    ComplexMode,
    ContractionSettings,
    FourierTransform,
    Implementation,
    Layout,
    Objective,
    Rank,
    WeightSettings,
    check_modes,
)


class FNO(GridOperator):
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
        refuse_complex(complex_data)
        most = None if max_n_modes is None else check_modes(max_n_modes)
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
            FourierTransform(modes, backend, layout, most),
            WeightSettings(
                factorization,
                rank,
                separable,
                implementation,
                ContractionSettings(contraction, complex_mode, memory_limit),
            ),
            layer_factors(resolution_scaling_factor, n_layers, len(modes)),
        )
        padding = check_padding(domain_padding, domain_padding_mode, len(modes))
        self.build_trunk(in_channels, out_channels, trunk, positional_embedding, padding)
        self.set_precision(precision)


class TFNO(FNO):
    """The tensorized FNO with neuraloperator's defaults: a Tucker factorization with a tenth of the parameters.

    Takes the arguments of `FNO`; only the defaults of `factorization` and `rank` differ.
    """

    def __init__(
        self,
        n_modes: int | tuple[int, ...],
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        n_layers: int = 4,
        *,
        factorization: str | None = "tucker",
        rank: Rank = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(
            n_modes,
            in_channels,
            out_channels,
            hidden_channels,
            n_layers,
            factorization=factorization,
            rank=rank,
            **options,
        )
