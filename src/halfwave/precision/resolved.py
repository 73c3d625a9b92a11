"""Resolved: a policy on a device, worked out once: how each role computes, and in which dtype a model answers.

A role in fp32 follows the weights: fp64 after `model.double()`, fp16 or bf16 after `.half()` or `.bfloat16()`. Every
other format is a choice and stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import torch

from halfwave.numerics import FORMATS, Arithmetic, arithmetic, arithmetic_of, compiling, kind_of

_OF_WEIGHTS: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
)
_BF16, _FP16 = FORMATS["bf16"], FORMATS["fp16"]


@dataclass(frozen=True)
class Resolved:
    """The arithmetic of each role, for master weights of the dtype `masters`."""

    forward_transform: Arithmetic
    contraction: Arithmetic
    inverse_transform: Arithmetic
    pointwise: Arithmetic
    weights: Arithmetic
    masters: torch.dtype

    @property
    def answer(self) -> torch.dtype:
        """What a whole model takes its input in and answers in: the masters' dtype, fp64 where it computes in that.

        Half-precision roles inside do not show: coordinates stay what they are, and losses are fp32.
        """
        return torch.float64 if self.pointwise.storage is torch.float64 else self.masters


def resolve(formats: tuple[str, ...], device: torch.device | str, masters: torch.dtype) -> Resolved:
    """The roles' formats, in the order of the fields of `Resolved`, on a device."""
    kind = kind_of(device)
    if compiling():  # which would warn that it cannot look into a cache
        return _resolve(formats, kind, masters)
    return _cached(formats, kind, masters, arithmetic(_BF16, kind), arithmetic(_FP16, kind))


# What products are taken in is part of the key: it changes where somebody says what the hardware is.
@lru_cache(maxsize=4096)
def _cached(formats: tuple[str, ...], kind: str, masters: torch.dtype, *products: Arithmetic) -> Resolved:
    return _resolve(formats, kind, masters)


def _resolve(formats: tuple[str, ...], kind: str, masters: torch.dtype) -> Resolved:
    if masters not in _OF_WEIGHTS:
        accepted = ", ".join(str(dtype).removeprefix("torch.") for dtype in _OF_WEIGHTS)
        raise ValueError(f"weights are {str(masters).removeprefix('torch.')}: expected one of {accepted}")
    names = [_OF_WEIGHTS[masters] if name == "fp32" else name for name in formats]
    forward, contraction, inverse, pointwise, weights = [arithmetic_of(name, kind) for name in names]
    return Resolved(forward, contraction, inverse, pointwise, weights, masters)
