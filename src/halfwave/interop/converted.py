"""What `convert` puts in the place of neuraloperator's layers: ours, answering the same calls.

neuraloperator's blocks call `conv(x, output_shape=...)`, and `conv.transform(skip, output_shape=...)` for a skip
connection beside it, which has to arrive on the same grid. Answers are in the dtype of the input, as the layers around
expect, and formats are the policy's, also under an autocast around the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from halfwave.errors import InputError
from halfwave.models import ChannelMLP
from halfwave.spectral import SpectralConv, resample


class ConvertedConv(nn.Module):
    """`conv` under neuraloperator's names.

    Attributes:
        conv: the spectral convolution.
        n_modes: the modes as neuraloperator counts them.
        resolution_scaling_factor: one factor per axis for the output grid, or None.
    """

    def __init__(
        self, conv: SpectralConv, n_modes: list[int], resolution_scaling_factor: Sequence[float] | None
    ) -> None:
        super().__init__()
        self.conv = conv
        self._n_modes = n_modes
        self.in_channels, self.out_channels = conv.in_channels, conv.out_channels
        self.order = len(n_modes)
        self.resolution_scaling_factor = resolution_scaling_factor

    def forward(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        y: Tensor = self.conv(x, self._grid(x, output_shape))
        return y.to(x.dtype)

    def transform(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
        """A skip connection on the grid that `forward` answers on."""
        with torch.autocast(x.device.type, enabled=False):
            return resample(x, self._grid(x, output_shape), self.conv.transform)

    @property
    def n_modes(self) -> list[int]:
        return self._n_modes

    @n_modes.setter
    def n_modes(self, n_modes: int | Sequence[int]) -> None:
        given = (n_modes,) if isinstance(n_modes, int) else tuple(n_modes)
        if given != self.conv.transform.n_modes:
            raise InputError(
                f"a converted convolution keeps its modes, {self.conv.transform.n_modes}: set n_modes to {given} "
                "before it is converted"
            )

    def _grid(self, x: Tensor, output_shape: Sequence[int] | None) -> tuple[int, ...]:
        if output_shape is not None:
            return tuple(output_shape)
        if self.resolution_scaling_factor is None:
            return tuple(x.shape[2:])
        return tuple(round(n * f) for n, f in zip(x.shape[2:], self.resolution_scaling_factor, strict=True))


class ConvertedChannelMLP(nn.Module):
    """In the place of `neuralop.layers.channel_mlp.ChannelMLP`: keeps its input only, and recomputes in slices."""

    def __init__(self, mlp: ChannelMLP) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mlp(x)
        return y.to(x.dtype)
