"""The table of number formats: what each one can hold.

A binary format with p significant bits and exponents emin..emax holds ±m 2^(e-p+1) with 2^(p-1) <= m < 2^p
(normal numbers) and, below 2^emin, multiples of 2^(emin-p+1) (subnormal numbers: gradual underflow).
Rounding to nearest has relative error at most u = 2^-p on normal numbers and absolute error at most half the
smallest subnormal below them (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch


@dataclass(frozen=True)
class Format:
    """One binary floating-point format.

    Attributes:
        name: how policies, commands and files call it.
        precision: p, significant bits with the implicit one.
        min_exponent: exponent of the smallest normal number.
        largest: the largest finite number.
        overflow: what rounding makes of values past it: ``"inf"``, ``"nan"`` where the format has no infinity, or
            ``"clip"``, the largest number itself, as simulations of a format do.
        dtype: the torch dtype that holds it, or None where it exists only as rounding inside float32.
        parts: how many bf16 numbers a value is multiplied as (`split_products`); 1 where it is multiplied as it is.
    """

    name: str
    precision: int
    min_exponent: int
    largest: float
    overflow: Literal["inf", "nan", "clip"]
    dtype: torch.dtype | None
    parts: int = 1

    @property
    def unit_roundoff(self) -> float:
        """u = 2^-p: the largest relative error of rounding a number in the normal range."""
        return 2.0**-self.precision

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.min_exponent

    @property
    def smallest_subnormal(self) -> float:
        return 2.0 ** (self.min_exponent - self.precision + 1)

    @property
    def emulated(self) -> bool:
        """True where no matrix product runs in it here: values are rounded to it and stored in float32."""
        return self.dtype is None or self.name in _EMULATED

    @property
    def storage(self) -> torch.dtype:
        """The dtype of tensors that carry values of this format through a model."""
        return torch.float32 if self.emulated or self.dtype is None else self.dtype

    @property
    def half(self) -> bool:
        """True for formats narrower than fp32 or multiplied in parts: the ``H`` of the paper's block ablation."""
        return self.precision < 24 or self.parts > 1

    def __str__(self) -> str:
        return self.name


def ieee_format(name: str, precision: int, max_exponent: int, dtype: torch.dtype | None = None) -> Format:
    """A format with infinities and gradual underflow, of p significant bits; emulated where torch has no dtype."""
    largest = (2.0 - 2.0 ** (1 - precision)) * 2.0**max_exponent
    return Format(name, precision, 1 - max_exponent, largest, "inf", dtype)


def split_format(name: str, precision: int, parts: int) -> Format:
    """Sums of bf16 parts, kept in float32: every number of p significant bits is one, above the smallest of bf16.

    The last half spacing before 2^128 is gone: there the first part overflows.
    """
    largest = (2.0 - 2.0**-8 - 2.0 ** (1 - precision)) * 2.0**127
    return Format(name, precision, precision - 134, largest, "inf", None, parts)


# Torch has dtypes for these, but no products.
_EMULATED = frozenset({"fp8_e4m3", "fp8_e5m2"})

_FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        ieee_format("fp64", 53, 1023, torch.float64),
        ieee_format("fp32", 24, 127, torch.float32),
        ieee_format("tf32", 11, 127, None),
        ieee_format("bf16", 8, 127, torch.bfloat16),
        ieee_format("fp16", 11, 15, torch.float16),
        # No infinity: the top exponent holds numbers up to 448, and one NaN.
        Format("fp8_e4m3", 4, -6, 448.0, "nan", torch.float8_e4m3fn),
        ieee_format("fp8_e5m2", 3, 15, torch.float8_e5m2),
        split_format("bf16x2", 17, 2),
        split_format("bf16x3", 24, 3),
    )
}
FORMATS: Mapping[str, Format] = MappingProxyType(_FORMATS)
"""Every format by its name."""


def register_format(format: Format) -> Format:
    """Make a format known by its name: to policies, bounds, files and the command line."""
    if _FORMATS.setdefault(format.name, format) != format:
        raise ValueError(f"there is another format called {format.name!r} already")
    return format


def get_format(name: str | Format) -> Format:
    """The format called `name`; raises ValueError with the accepted names otherwise."""
    if isinstance(name, Format):
        return name
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}: expected one of {', '.join(FORMATS)}")
    return FORMATS[name]
