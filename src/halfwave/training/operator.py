"""Operator: a model with the normalisation it was trained with, from physical inputs to physical outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from halfwave.data import Normalizer
from halfwave.numerics import at_least_fp32, compile_options
from halfwave.training.clouds import CloudEncoder, Clouds, Inputs


class Operator(nn.Module):
    """y = decode(model(encode(x))), in float32 outside the model, in float64 where the model answers in that.

    On fields x is B x C x grid and y is B x O x grid, in the units of the data file, at any resolution that the model
    takes. Either normalizer may be None, which leaves that side as it is.

    On point clouds x is a `Clouds` that the operator's `encoder` has made, whose tensors are the model's keyword
    arguments, and y is packed as the points are, Σn x O:

    >>> y = operator(operator.encoder.collate(samples))
    """

    def __init__(
        self,
        model: nn.Module,
        x_normalizer: Normalizer | None,
        y_normalizer: Normalizer | None,
        encoder: CloudEncoder | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.x_normalizer, self.y_normalizer = x_normalizer, y_normalizer
        self.encoder = encoder
        self.compiled = False

    def set_compiled(self, compiled: bool) -> None:
        """Compile the model when it is next called, or run it eagerly."""
        if compiled:
            self.model.compile(options=compile_options())
        else:
            self.model._compiled_call_impl = None
        self.compiled = compiled

    def forward(self, x: Inputs) -> Tensor:
        """(B, C, *grid) to (B, O, *grid) in the units of the data; of `Clouds` the values at their points, (Σn, O)."""
        # Decoding in half precision would round the answer to the half format once more.
        output = at_least_fp32(self._answer(x))
        decoded = output if self.y_normalizer is None else self.y_normalizer.decode(output)
        return decoded * x.scales if isinstance(x, Clouds) and x.scales is not None else decoded

    def _answer(self, x: Inputs) -> Tensor:
        if isinstance(x, Clouds):
            return self.model(**x.arguments())
        encoded = x if self.x_normalizer is None else self.x_normalizer.encode(x)
        return self.model(_with_free_batch(encoded) if self.compiled else encoded)


def _with_free_batch(x: Tensor) -> Tensor:
    """`x`, for a compiled model: one program serves every batch of two samples and more."""
    torch._dynamo.maybe_mark_dynamic(x, 0)
    return x
