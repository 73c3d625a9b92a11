"""A small model of each kind, and a batch for it."""

from dataclasses import dataclass
from typing import Any

import torch

from halfwave.models import MODELS, NeuralOperator, pack_points


@dataclass(frozen=True)
class Batch:
    """What a model is called with, and a target for its answer."""

    arguments: tuple[torch.Tensor, ...]
    offsets: dict[str, torch.Tensor]
    target: torch.Tensor

    def ask(self, model: torch.nn.Module) -> torch.Tensor:
        return model(*self.arguments, **self.offsets)


_FIELDS = {"in_channels": 1, "out_channels": 1, "hidden_channels": 8}
_GINO = {
    "in_channels": 3,
    "out_channels": 2,
    "latent_feature_channels": 1,
    "in_gno_radius": 0.3,
    "out_gno_radius": 0.3,
    "fno_n_modes": (4, 4, 4),
    "fno_hidden_channels": 8,
    "fno_n_layers": 2,
    "gno_embed_channels": 4,
    "in_gno_channel_mlp_hidden_layers": (8, 8),
    "out_gno_channel_mlp_hidden_layers": (16, 8),
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "FNO": {"n_modes": (6, 6), "n_layers": 2, **_FIELDS},
    "TFNO": {"n_modes": (6, 6), "n_layers": 2, "rank": 0.5, **_FIELDS},
    "SFNO": {"n_modes": (6, 8), "n_layers": 2, **_FIELDS},
    "GINO": _GINO,
    "UNet": {**_FIELDS, "hidden_channels": 4, "n_levels": 2},
}
OPERATORS = [name for name in MODELS if name != "UNet"]
"""The models that are operators. A U-Net is not: its convolutions are of the grid, so another grid is another map."""


def build(name: str, **options: Any) -> NeuralOperator:
    torch.manual_seed(0)
    return MODELS[name](**{**ARGUMENTS[name], **options})


def batch(name: str, scale: int = 1) -> Batch:
    """Random inputs on a small grid, `scale` times as fine; for GINO two geometries of random points."""
    generator = torch.Generator().manual_seed(1)
    if name == "GINO":
        return _points(generator, scale)
    grid = (8 * scale, 16 * scale) if name == "SFNO" else (16 * scale, 16 * scale)
    x = torch.randn(2, 1, *grid, generator=generator)
    return Batch((x,), {}, 1 + 0.5 * x)


def _points(generator: torch.Generator, scale: int) -> Batch:
    (points, given), (queries, asked) = (
        pack_points([torch.rand(scale * n, 3, generator=generator) for n in sizes]) for sizes in ((30, 1), (9, 20))
    )
    axis = torch.linspace(0, 1, 5 * scale)
    latent = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1)
    features = torch.randn(2, *latent.shape[:3], 1, generator=generator)
    target = torch.stack([queries[:, 0], queries.sum(1)], dim=1)
    arguments = (points, latent, queries, torch.randn(len(points), 3, generator=generator), features)
    return Batch(arguments, {"input_offsets": given, "output_offsets": asked}, target)
