"""The norms of an FNO block, under neuraloperator's names; statistics in fp32 whatever the format of the fields.

| name          | statistics over      | scale and shift                        |
| ------------- | -------------------- | -------------------------------------- |
| group_norm    | channels and points  | learned, one per channel               |
| instance_norm | points               | none                                   |
| ada_in        | points               | a small MLP of an embedding, see below |

`batch_norm` is refused: statistics over the batch make a sample's answer depend on its neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halfwave.models.normalization import EPS, Mean, NormActivation, activation_function, normalise_by
from halfwave.models.pointwise import PointwiseModule
from halfwave.precision import Policy, as_policy

NORMS = ("group_norm", "instance_norm", "ada_in", None)
_ADA_IN_WIDTH = 512


class AdaptiveNorm(PointwiseModule):
    """activation(s InstanceNorm(x) + t) with (s, t) = MLP(e): (B, C, *grid) to the same, e the embedding (E,).

    The embedding (a physical parameter of all samples, say) is set by `set_embedding` and stays until the next one.
    """

    mean: Mean | None = None
    """As in `NormActivation`."""

    def __init__(
        self, features: int, channels: int, activation: str | None = None, precision: str | Policy = "full"
    ) -> None:
        super().__init__()
        self.features, self.activation = features, activation
        self.mlp = nn.Sequential(nn.Linear(features, _ADA_IN_WIDTH), nn.GELU(), nn.Linear(_ADA_IN_WIDTH, 2 * channels))
        self.embedding: Tensor | None = None
        self.policy = as_policy(precision)

    def set_embedding(self, embedding: Tensor) -> None:
        if embedding.numel() != self.features:
            raise ValueError(f"an embedding of {self.features} numbers is expected, got {tuple(embedding.shape)}")
        self.embedding = embedding.reshape(self.features)

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is None:
            raise ValueError("norm 'ada_in' has no embedding yet: call set_ada_in_embeddings first")
        masters = next(self.mlp.parameters())
        scale, shift = self.mlp(self.embedding.to(masters)).chunk(2)
        wide, channels = x.to(masters.dtype), x.shape[1]
        if self.mean is not None:
            normed = normalise_by(self.mean, wide, channels, scale, shift)
        else:
            normed = torch.group_norm(wide, channels, scale, shift, EPS)
        return self.arithmetic(x.device).store(activation_function(self.activation)(normed))

    def extra_repr(self) -> str:
        return f"{self.features}, {self.activation}"


def build_norm(
    name: str | None, channels: int, activation: str | None, features: int | None
) -> NormActivation | AdaptiveNorm | None:
    """The norm called `name` with the nonlinearity after it; `features` is the size of the embedding of ada_in."""
    if name not in NORMS:
        raise ValueError(f"unknown norm {name!r}: expected one of {', '.join(map(str, NORMS))}")
    if (features is not None) != (name == "ada_in"):
        raise ValueError(f"ada_in_features belongs to norm 'ada_in': got {features!r} with norm {name!r}")
    if name is None:
        return None
    if name == "ada_in":
        assert features is not None
        return AdaptiveNorm(features, channels, activation)
    groups = channels if name == "instance_norm" else 1
    return NormActivation(channels, activation, groups=groups, affine=name == "group_norm")
