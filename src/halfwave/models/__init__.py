"""Neural operators under one precision policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from halfwave.errors import InputError, nearest
from halfwave.models.arguments import refuse_unknown
from halfwave.models.base import NeuralOperator, computing_in, names_in_operator, set_precision
from halfwave.models.block import FNOBlock, Skip
from halfwave.models.compressed import Compressed, compression_of
from halfwave.models.embeddings import GridEmbedding, PositionalEmbedding, SinusoidalEmbedding
from halfwave.models.field_norm import AdaptiveNorm
from halfwave.models.fno import FNO, TFNO
from halfwave.models.foreign import Foreign, foreign_name, under_policy
from halfwave.models.gino import GINO
from halfwave.models.graph import Graph
from halfwave.models.graph_cache import CACHE_BYTES, GraphCache, PreparedGraphs
from halfwave.models.graph_kernel import GraphKernel, divided, spread
from halfwave.models.layer_filter import LayerFilter
from halfwave.models.mollifiers import MOLLIFIERS
from halfwave.models.nonlinearity import NONLINEARITIES, nonlinearity_name
from halfwave.models.normalization import NormActivation
from halfwave.models.packing import pack_points, unpack_points
from halfwave.models.padding import DomainPadding
from halfwave.models.pointwise import ChannelMLP
from halfwave.models.recompute import blocks_of, recompute_blocks
from halfwave.models.scaling import Factors, layer_factors
from halfwave.models.settling import settle_for, settle_stabilizers, settled_stabilizers, trial_run
from halfwave.models.sfno import SFNO
from halfwave.models.trunk import GridOperator
from halfwave.models.unet import UNet
from halfwave.models.unrolled import Gradients, Unrolled, Unrolling, stepping_model

_MODELS: dict[str, type[NeuralOperator]] = {cls.__name__: cls for cls in (FNO, TFNO, SFNO, GINO, UNet)}
MODELS: Mapping[str, type[NeuralOperator]] = MappingProxyType(_MODELS)
"""Every model by the name of its class, which configs and files call it by."""


def register_model(cls: type[NeuralOperator]) -> type[NeuralOperator]:
    """Make a model known by the name of its class: to configs, recipes, files and the command line."""
    if _MODELS.setdefault(cls.__name__, cls) is not cls:
        raise ValueError(f"there is a model called {cls.__name__!r} already")
    return cls


def check_arguments(name: str, arguments: Iterable[str]) -> None:
    """InputError for an unknown model, or for an argument that it does not take."""
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}: expected one of {', '.join(MODELS)}{nearest(name, MODELS)}")
    refuse_unknown(MODELS[name], arguments)


def build_model(name: str, arguments: Mapping[str, Any]) -> NeuralOperator:
    """The model called `name`, built from its `config`; ValueError for an unknown name or argument."""
    try:
        check_arguments(name, arguments)
        return MODELS[name](**arguments)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


__all__ = [
    "CACHE_BYTES",
    "FNO",
    "GINO",
    "MODELS",
    "MOLLIFIERS",
    "NONLINEARITIES",
    "SFNO",
    "TFNO",
    "AdaptiveNorm",
    "ChannelMLP",
    "Compressed",
    "DomainPadding",
    "FNOBlock",
    "Factors",
    "Foreign",
    "Gradients",
    "Graph",
    "GraphCache",
    "GraphKernel",
    "GridEmbedding",
    "GridOperator",
    "LayerFilter",
    "NeuralOperator",
    "NormActivation",
    "PositionalEmbedding",
    "PreparedGraphs",
    "SinusoidalEmbedding",
    "Skip",
    "UNet",
    "Unrolled",
    "Unrolling",
    "blocks_of",
    "build_model",
    "check_arguments",
    "compression_of",
    "computing_in",
    "divided",
    "foreign_name",
    "layer_factors",
    "names_in_operator",
    "nonlinearity_name",
    "pack_points",
    "recompute_blocks",
    "register_model",
    "set_precision",
    "settle_for",
    "settle_stabilizers",
    "settled_stabilizers",
    "spread",
    "stepping_model",
    "trial_run",
    "under_policy",
    "unpack_points",
]
