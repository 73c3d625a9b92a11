"""U-Net: the convolutional baseline of the paper's comparison, encoder, decoder and skip connections in 2-D."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from halfwave.models.arguments import check_counts
from halfwave.models.base import NeuralOperator
from halfwave.models.convolution import Convolution
from halfwave.models.normalization import NormActivation
from halfwave.precision import Policy


class UNet(NeuralOperator):
    """The U-Net of Ronneberger et al. (2015) with GroupNorm, as a map between fields.

    Shapes: (B, in_channels, H, W) to (B, out_channels, H, W) in fp32, for every H and W: the grid is padded with its
    edge values to a multiple of 2^n_levels and cut again. A U-Net learns in grid points, not in space: on another
    resolution than that of its training it is another map.

    Precision: convolutions compute in the policy's `pointwise` format, norms in fp32. A U-Net has no spectral stages,
    so the spectral roles and the stabilizer of a policy have nothing to act on: ``"mixed"`` is ``"amp"`` here and
    ``"half"`` is ``"full"``, and the paper's schedule runs as it is. A policy that sets the spectral stages apart from
    each other (a row of the block ablation) asks for what is not there, and raises ValueError.

    Args:
        in_channels, out_channels: channels of input and output fields.
        hidden_channels: width of the first level; each level below has twice as many.
        n_levels: how often the grid is halved.
        non_linearity: the name of one, see `nonlinearity`.
        precision: a `Policy` or the name of one.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 32,
        n_levels: int = 4,
        *,
        non_linearity: str = "gelu",
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels, hidden_channels=hidden_channels)
        check_counts(n_levels=n_levels)
        self.n_dim = 2
        self.in_channels = in_channels
        self.n_levels = n_levels
        widths = [hidden_channels * 2**level for level in range(n_levels + 1)]
        pairs = list(pairwise(widths))
        self.first = _double(in_channels, hidden_channels, non_linearity)
        self.down = nn.ModuleList(_double(fine, coarse, non_linearity) for fine, coarse in pairs)
        self.up = nn.ModuleList(Convolution(coarse, fine, upsample=True) for fine, coarse in pairs)
        self.merge = nn.ModuleList(_double(2 * fine, fine, non_linearity) for fine, _ in pairs)
        self.head = Convolution(hidden_channels, out_channels, kernel=1)
        self.set_precision(precision)

    def check_policy(self, policy: Policy) -> None:
        stages = (policy.forward_transform, policy.contraction, policy.inverse_transform)
        if len(set(stages)) > 1:
            raise ValueError(
                f"a U-Net has no spectral stages: expected a policy with one format for all of them, got {policy}"
            )

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) to (B, out_channels, H, W), for every H and W; ValueError for other shapes.

        `x` is real, of any floating-point dtype, on the device of the weights; the answer is fp32, or as wide as the
        weights.
        """
        x = self.receive(x, self.in_channels, self.n_dim)
        rows, columns = (_missing(size, 2**self.n_levels) for size in x.shape[2:])
        v = self.first(_pad(x, rows, columns, "replicate"))
        skips = []
        for down in self.down:
            skips.append(v)
            v = down(nn.functional.max_pool2d(v, 2))
        for level in reversed(range(self.n_levels)):
            v = self.merge[level](torch.cat([skips.pop(), self.up[level](v)], dim=1))
        # Not a view: whether one of symbolic sizes is contiguous cannot be known where a program is traced.
        return self.answer(_pad(self.head(v), -rows, -columns, "constant"))


def _double(in_channels: int, out_channels: int, activation: str) -> nn.Sequential:
    """Two convolutions, each followed by its norm and nonlinearity."""
    return nn.Sequential(
        Convolution(in_channels, out_channels),
        NormActivation(out_channels, activation),
        Convolution(out_channels, out_channels),
        NormActivation(out_channels, activation),
    )


def _pad(x: Tensor, rows: int, columns: int, mode: str) -> Tensor:
    """Rows and columns added at the end, or taken away; a symbol may be zero as well, and is not asked."""
    nothing = isinstance(rows, int) and isinstance(columns, int) and not rows and not columns
    return x if nothing else nn.functional.pad(x, (0, columns, 0, rows), mode=mode)


def _missing(size: int, multiple: int) -> int:
    """Points up to a multiple of `multiple`: what is added is a multiple by construction, for symbolic sizes too."""
    return (size + multiple - 1) // multiple * multiple - size
