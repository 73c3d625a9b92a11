"""A batch of point clouds: what a model of points takes, and what a loss compares its answer with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Clouds:
    """B geometries of n_b points each, packed one after the other, with the latent grid that they share.

    points: (Σn, 3), in the unit box of `CloudEncoder`.
    normals: (Σn, 3), the input function on the points.
    offsets: (B + 1,), on the host: geometry b has the rows offsets[b] to offsets[b + 1].
    latent_queries: (X, Y, Z, 3), nodes of the latent grid.
    latent_features: (B, X, Y, Z, F), the signed distance first, then the parameters that are features.
    scales: (Σn, 1), what the model's answer is multiplied with, V^2 of each geometry; None where it is the pressure.
    """

    points: Tensor
    normals: Tensor
    offsets: Tensor
    latent_queries: Tensor
    latent_features: Tensor
    scales: Tensor | None = None

    def __len__(self) -> int:
        return len(self.latent_features)

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `GINO`: pressure is asked for at the points themselves."""
        return {
            "input_geom": self.points,
            "latent_queries": self.latent_queries,
            "output_queries": self.points,
            "x": self.normals,
            "latent_features": self.latent_features,
            "input_offsets": self.offsets,
            "output_offsets": self.offsets,
        }

    def tensors(self) -> list[Tensor]:
        scales = [] if self.scales is None else [self.scales]
        return [self.points, self.normals, self.offsets, self.latent_queries, self.latent_features, *scales]

    def to(self, device: torch.device) -> Clouds:
        # Offsets stay on the host: they are read as numbers, which would wait for the device every time.
        moved = {n: getattr(self, n).to(device) for n in ("points", "normals", "latent_queries", "latent_features")}
        return replace(self, **moved, scales=None if self.scales is None else self.scales.to(device))


@dataclass(frozen=True)
class Pressures:
    """The truth on a batch of clouds: values (Σn, 1), areas (Σn,) of the points, and offsets as in `Clouds`."""

    values: Tensor
    areas: Tensor
    offsets: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def tensors(self) -> list[Tensor]:
        return [self.values, self.areas, self.offsets]

    def to(self, device: torch.device) -> Pressures:
        return Pressures(self.values.to(device), self.areas.to(device), self.offsets)


Inputs = Tensor | Clouds
"""What an operator takes: fields B x C x grid, or a batch of clouds."""

Targets = Tensor | Pressures
"""What its answer is compared with."""
