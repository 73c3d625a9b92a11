"""The pieces of work that `halfwave bench` measures: our model, neuraloperator's of the same size, a batch for both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.errors import InputError
from halfwave.models import FNO, GINO, SFNO
from halfwave.spectral import SpectralConv


@dataclass(frozen=True)
class BenchCase:
    """One piece of work: forward and backward of a spectral convolution, a training step or an answer of a model.

    Attributes:
        kind: ``"conv"``; ``"step"`` of an FNO, ``"sfno"`` or ``"gino"``; ``"inference"`` of an FNO.
        grid: of the fields; of a GINO that of its latent space.
        options: further arguments that both libraries' models take.
        points: of a GINO, on the surface of one body.
        peer_compiles: whether the peer's model may be compiled; its SFNO builds its tables while it is traced, which
            15 minutes and 14 GB did not end.
    """

    name: str
    kind: str
    grid: tuple[int, ...]
    n_modes: tuple[int, ...]
    channels: int
    batch: int
    n_layers: int = 4
    options: dict[str, Any] = field(default_factory=dict)
    points: int = 0
    peer_compiles: bool = True

    @property
    def trains(self) -> bool:
        """Whether weights are updated."""
        return self.kind not in ("conv", "inference")


BENCH_CASES = (
    BenchCase("conv-128x128", "conv", (128, 128), (64, 64), 64, 8),
    BenchCase("step-1024", "step", (1024,), (64,), 64, 16),
    BenchCase("step-16x16", "step", (16, 16), (8, 8), 32, 32),
    BenchCase("step-32x32", "step", (32, 32), (16, 16), 32, 16),
    BenchCase("step-64x64", "step", (64, 64), (32, 32), 64, 8),
    BenchCase("step-128x128", "step", (128, 128), (64, 64), 64, 8),
    BenchCase("step-128x128-batch32", "step", (128, 128), (64, 64), 64, 32),
    BenchCase("step-256x256", "step", (256, 256), (64, 64), 32, 4),
    BenchCase("step-64x64x64", "step", (64, 64, 64), (16, 16, 16), 32, 1),
    BenchCase("step-128x128-cp", "step", (128, 128), (64, 64), 64, 8, options={"factorization": "cp", "rank": 0.05}),
    BenchCase("sfno-256x512", "sfno", (256, 512), (256, 256), 32, 4, peer_compiles=False),
    BenchCase("gino-32", "gino", (32, 32, 32), (16, 16, 16), 64, 1, points=3586),
    BenchCase("inference-64x64-1", "inference", (64, 64), (32, 32), 64, 1),
    BenchCase("inference-64x64-64", "inference", (64, 64), (32, 32), 64, 64),
)


def build_ours(case: BenchCase) -> nn.Module:
    """Our model, in full precision."""
    if case.kind == "conv":
        return SpectralConv(case.channels, case.channels, case.n_modes, **case.options)
    if case.kind == "gino":
        return GINO(**_gino_arguments(case))
    if case.kind == "sfno":
        return SFNO((case.n_modes[0], case.n_modes[1]), 1, 1, case.channels, case.n_layers, **case.options)
    return FNO(case.n_modes, 1, 1, case.channels, case.n_layers, **case.options)


def build_peer(case: BenchCase) -> nn.Module:
    """neuraloperator's model with the same architecture; InputError where it is not installed."""
    try:
        from neuralop import models
        from neuralop.layers.spectral_convolution import SpectralConv as PeerConv
    except ImportError as error:
        raise InputError("neuraloperator is not installed: pip install 'halfwave[peer]' -c constraints.txt") from error
    peer: nn.Module
    if case.kind == "conv":
        peer = PeerConv(case.channels, case.channels, case.n_modes, **case.options)
    elif case.kind == "gino":
        peer = models.GINO(**_gino_arguments(case), gno_use_open3d=False, gno_use_torch_scatter=False)
    else:
        peer = (models.SFNO if case.kind == "sfno" else models.FNO)(
            n_modes=case.n_modes,
            in_channels=1,
            out_channels=1,
            hidden_channels=case.channels,
            n_layers=case.n_layers,
            **case.options,
        )
    return peer


def build_batch(case: BenchCase) -> tuple[tuple[Tensor, ...], Tensor]:
    """(what both models are called with, the target)."""
    if case.kind == "gino":
        points, latent = surface(case.points)[None], unit_grid(case.grid)[None]
        x, y = torch.randn(1, case.points, 3), torch.randn(1, case.points, 1)
        return (points, latent, points, x, torch.randn(1, *case.grid, 1)), y
    channels = case.channels if case.kind == "conv" else 1
    x, y = torch.randn(2, case.batch, channels, *case.grid).unbind(0)
    return (x,), y


def surface(count: int) -> Tensor:
    """(count, 3) random points of an ellipsoid with the proportions of a car, inside the unit box."""
    direction = torch.randn(count, 3)
    return 0.5 + direction / direction.norm(dim=1, keepdim=True) * torch.tensor([0.45, 0.18, 0.14])


def unit_grid(sizes: tuple[int, ...]) -> Tensor:
    """(*sizes, axes) coordinates of a grid of the unit box, its edges included."""
    return torch.stack(torch.meshgrid(*(torch.linspace(0, 1, n) for n in sizes), indexing="ij"), dim=-1)


def _gino_arguments(case: BenchCase) -> dict[str, Any]:
    """Both libraries' defaults in all that is not said here; neighbourhoods reach a little past a latent cell."""
    return {
        "in_channels": 3,
        "out_channels": 1,
        "latent_feature_channels": 1,
        "in_gno_radius": 0.033,
        "out_gno_radius": 0.033,
        "fno_n_modes": case.n_modes,
        "fno_hidden_channels": case.channels,
        "fno_n_layers": case.n_layers,
        **case.options,
    }
