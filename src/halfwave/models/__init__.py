"""Neural operators under one precision policy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from halfwave.models.base import NeuralOperator, set_precision
from halfwave.models.embeddings import GridEmbedding, SinusoidalEmbedding
from halfwave.models.fno import FNO
from halfwave.models.gino import GINO
from halfwave.models.packing import pack_points, unpack_points
from halfwave.models.sfno import SFNO
from halfwave.models.tfno import TFNO
from halfwave.models.unet import UNet

MODELS: Mapping[str, type[NeuralOperator]] = MappingProxyType(
    {"FNO": FNO, "TFNO": TFNO, "SFNO": SFNO, "GINO": GINO, "UNet": UNet}
)


def build_model(name: str, arguments: Mapping[str, Any]) -> NeuralOperator:
    """The model called `name`, built from its `config`; ValueError for an unknown name or argument."""
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}: expected one of {', '.join(MODELS)}")
    try:
        return MODELS[name](**arguments)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


__all__ = [
    "FNO",
    "GINO",
    "MODELS",
    "SFNO",
    "TFNO",
    "GridEmbedding",
    "NeuralOperator",
    "SinusoidalEmbedding",
    "UNet",
    "build_model",
    "pack_points",
    "set_precision",
    "unpack_points",
]
