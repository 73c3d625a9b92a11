"""FNO: the Fourier Neural NeuralOperator, lifting -> blocks -> projection, on any grid in 1, 2 or 3 dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from halfwave.models.arguments import check_counts
from halfwave.models.base import NeuralOperator
from halfwave.models.block import SkipName, build_blocks
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.positions import append_grid
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.modes import Layout, check_modes
from halfwave.spectral.plan import ComplexMode, Objective
from halfwave.spectral.ranks import Rank
from halfwave.spectral.transform_plan import Backend


class FNO(NeuralOperator):
    """The Fourier Neural NeuralOperator with the architecture and argument names of neuraloperator's.

    Shapes: (B, in_channels, *grid) to (B, out_channels, *grid) in fp32, for every grid with as many axes as `n_modes`.

    Args:
        n_modes: kept frequencies per axis, one to three integers.
        in_channels, out_channels: channels of input and output fields.
        hidden_channels: width of the blocks.
        n_layers: number of blocks.
        lifting_channel_ratio, projection_channel_ratio: hidden width of the two outer MLPs, relative to the blocks'.
        positional_embedding: ``"grid"`` appends the coordinates in [0, 1) as channels; None does not.
        fno_skip, channel_mlp_skip: ``"linear"``, ``"identity"``, ``"soft-gating"`` or None.
        channel_mlp_expansion: width of the blocks' MLP relative to the blocks; None leaves it out.
        domain_padding: fraction of the grid added as zeros on both sides of each axis, for non-periodic problems.
        factorization, rank, separable, implementation: of the spectral weights, as in `SpectralConv`.
        contraction, complex_mode, memory_limit: of each layer's contraction, as in `SpectralConv`.
        precision: a `Policy` or the name of one.
        backend: of the Fourier transform, ``"gemm"``, ``"fft"`` or ``"auto"``.
        layout: ``"neuralop"`` repeats its treatment of odd grids, for carried-over weights.
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
        positional_embedding: str | None = "grid",
        fno_skip: SkipName | None = "linear",
        channel_mlp_skip: SkipName | None = "soft-gating",
        channel_mlp_expansion: float | None = 0.5,
        domain_padding: float | Sequence[float] | None = None,
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
        if positional_embedding not in ("grid", None):
            raise ValueError(f"unknown positional_embedding {positional_embedding!r}: expected 'grid' or None")
        self.n_dim = len(modes)
        self.in_channels = in_channels
        self.positional_embedding = positional_embedding
        self.padding = _check_padding(domain_padding, self.n_dim)
        lifted = in_channels + (self.n_dim if positional_embedding else 0)
        self.lifting = ChannelMLP(lifted, int(lifting_channel_ratio * hidden_channels), hidden_channels)
        self.blocks = build_blocks(
            partial(
                SpectralConv,
                hidden_channels,
                hidden_channels,
                modes,
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
            skip=fno_skip,
            mlp_skip=channel_mlp_skip,
            mlp_expansion=channel_mlp_expansion,
        )
        self.projection = ChannelMLP(hidden_channels, int(projection_channel_ratio * hidden_channels), out_channels)
        self.set_precision(precision)

    def forward(self, x: Tensor) -> Tensor:
        x = self.receive(x, self.in_channels, self.n_dim)
        v = append_grid(x) if self.positional_embedding else x
        v = self.lifting(v)
        pads = [round(p * size) for p, size in zip(self.padding, x.shape[2:], strict=True)]
        if any(pads):
            v = nn.functional.pad(v, [p for pad in reversed(pads) for p in (pad, pad)])
        for block in self.blocks:
            v = block(v)
        if any(pads):
            for axis, (pad, size) in enumerate(zip(pads, x.shape[2:], strict=True), start=2):
                v = v.narrow(axis, pad, size)
        out: Tensor = self.projection(v)
        return self.answer(out)


def _check_padding(padding: float | Sequence[float] | None, dim: int) -> tuple[float, ...]:
    values = tuple(padding) if isinstance(padding, Sequence) else (padding or 0.0,) * dim
    if len(values) != dim or min(values) < 0:
        raise ValueError(f"domain_padding must be a fraction >= 0, or {dim} of them, got {padding!r}")
    return values
