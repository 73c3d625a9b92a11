"""Operator: a model with the normalisation it was trained with, from physical fields to physical fields."""

from __future__ import annotations

from torch import Tensor, nn

from halfwave.data import Normalizer


class Operator(nn.Module):
    """y = decode(model(encode(x))), in float32 outside the model.

    x is B x C x grid and y is B x O x grid, in the units of the data file, at any resolution that the model takes.
    Either normalizer may be None, which leaves that side as it is.
    """

    def __init__(self, model: nn.Module, x_normalizer: Normalizer | None, y_normalizer: Normalizer | None) -> None:
        super().__init__()
        self.model = model
        self.x_normalizer, self.y_normalizer = x_normalizer, y_normalizer

    def forward(self, x: Tensor) -> Tensor:
        encoded = x if self.x_normalizer is None else self.x_normalizer.encode(x)
        # Decoding in half precision would round the answer to the half format once more.
        output = self.model(encoded).float()
        return output if self.y_normalizer is None else self.y_normalizer.decode(output)
