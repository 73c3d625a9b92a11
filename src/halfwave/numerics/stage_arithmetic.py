"""Arithmetic in a format on a device: what is stored, and what products are taken in.

Five cases, one interface:
- *native*: the device multiplies the format; tensors are stored and multiplied in it, sums run in fp32 inside the
  product, results are rounded to the format.
- *wide*: the device does not (fp16 on most CPUs); tensors are stored in the format and widened to fp32 for the
  product. Products of half-precision numbers are exact in fp32, so this is what the native instruction computes.
- *emulated*: the format exists only as rounding inside float32 (fp8, tf32); operands and results are rounded.
- *split*: as emulated, and products are taken by bf16 parts (bf16x2, bf16x3): see `split_products`.
- *portable*: as wide, but stored in fp32 too (see `portable`): runtimes cast half formats and compute little in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.numerics.formats import Format, get_format
from halfwave.numerics.hardware import multiplies_natively
from halfwave.numerics.portable_mode import portable
from halfwave.numerics.rounding import round_to
from halfwave.numerics.split_products import Bilinear, multiply_parts


@dataclass(frozen=True)
class Arithmetic:
    """How one format is computed with: `load` operands, multiply them in `compute`, `store` the result."""

    format: Format
    compute: torch.dtype
    portable: bool = False

    @property
    def storage(self) -> torch.dtype:
        return self.compute if self.portable else self.format.storage

    @property
    def how(self) -> str:
        """One word for records and `repr`: native, wide, emulated, split or portable."""
        if self.portable:
            return "portable"
        if self.format.parts > 1:
            return "split"
        if self.format.emulated:
            return "emulated"
        return "native" if self.compute is self.storage else "wide"

    def load(self, x: Tensor) -> Tensor:
        """`x` rounded to the format, in the dtype that products are taken in."""
        if self.format.emulated:
            return round_to(x.float(), self.format)
        return x.to(self.format.storage).to(self.compute)

    def load_into(self, out: Tensor, x: Tensor) -> Tensor:
        """`load`, written to `out` of the compute dtype, in its order: one pass over memory for what is stored."""
        if self.format.emulated:
            return out.copy_(round_to(x.float(), self.format))
        return out.copy_(x.to(self.format.storage))

    def store(self, x: Tensor) -> Tensor:
        """A result rounded to the format, in the dtype that tensors of it are kept in."""
        if self.format.emulated:
            return round_to(x.float(), self.format)
        return x.to(self.format.storage).to(self.storage)

    def store_into(self, out: Tensor, x: Tensor) -> None:
        """`store`, written to `out` of the storage dtype: one pass over memory, where storing and copying take two."""
        out.copy_(round_to(x.float(), self.format) if self.format.emulated else x)

    def settle(self, x: Tensor) -> Tensor:
        """An intermediate result inside a fused step: it stays in `compute`, rounded only where that is emulated.

        Native products have rounded it already; a wide step keeps fp32 until it stores, as a fused kernel would.
        """
        return round_to(x, self.format) if self.format.emulated else x

    def multiply(self, product: Bilinear, a: Tensor, b: Tensor) -> Tensor:
        """`product`, linear in both, of loaded operands: one product, or those of their parts."""
        return product(a, b) if self.format.parts == 1 else multiply_parts(product, a, b, self.format.parts)

    def product(self, x: Tensor) -> Tensor:
        """A product inside a fused step that no `settle` follows: what rounds it is the instruction, or nothing."""
        return x

    def cast(self, x: Tensor) -> Tensor:
        """What an operator is about to convert to the dtype of storage, or has made in it."""
        return x

    def matrix(self, constant: Tensor, scale: float = 1.0) -> Tensor:
        """What `constant` made with this scale, about to be multiplied with."""
        return constant

    def constant(self, exact: Tensor, scale: float = 1.0) -> Tensor:
        """A float64 matrix with entries of size 1, rounded to the format and scaled, ready for products.

        Where products are wide the scale multiplies the rounded entries, so that scaling never underflows; a native
        operand has to hold the scaled entries itself.
        """
        if self.compute is self.storage and self.format.half and not self.portable:
            return round_to(exact * scale, self.format).to(self.compute)
        return (round_to(exact, self.format) * scale).to(self.compute)

    def __str__(self) -> str:
        return f"{self.format.name} ({self.how})"


def arithmetic(format: Format, device_type: str) -> Arithmetic:
    """The way `format` is computed with on a device of this type."""
    if format.emulated:
        return Arithmetic(format, torch.float32)
    if portable():
        return Arithmetic(format, torch.promote_types(format.storage, torch.float32), portable=True)
    native = multiplies_natively(format, device_type)
    return Arithmetic(format, format.storage if native else torch.float32)


def arithmetic_of(format_name: str, device_type: str) -> Arithmetic:
    """`arithmetic` by the name of the format."""
    return arithmetic(get_format(format_name), device_type)
