"""Weights stored in fp16, each tensor with a power of two that brings it back: w = 2^e h.

Half the bytes of a file. Products are not taken in fp16: the weights are widened first, once where a runtime folds
constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor, nn

# The largest entry is scaled to lie below this: fp16 ends at 65504, and what is far smaller keeps its bits.
_LARGEST = 2.0**15

STORED = "stored."
"""What the names of stored weights begin with in a traced program, whose attribute `stored` holds them."""


def scale_of(value: Tensor) -> float:
    """2^e, a power of two that depends on the largest entry alone."""
    largest = float(value.abs().max()) if value.numel() else 0.0
    return 2.0 ** math.ceil(math.log2(largest / _LARGEST)) if largest > 0 else 1.0


class StoredWeights(nn.Module):
    """Parameters by name, held in fp16."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names, self.scales = tuple(parameters), [scale_of(value) for value in parameters.values()]
        for number, (value, scale) in enumerate(zip(parameters.values(), self.scales, strict=True)):
            self.register_buffer(f"w{number}", (value / scale).half())

    def restored(self) -> dict[str, Tensor]:
        """The parameters by name, in fp32."""
        found = zip(self.names, self.buffers(), self.scales, strict=True)
        return {name: half.float() * scale for name, half, scale in found}
