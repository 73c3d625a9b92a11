"""The settings of a neuraloperator FNO by its state dict: the `_metadata` that it stores there, or the names alone.

`_metadata` are the arguments of the constructor: what was changed afterwards (`model.n_modes = ...`) is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from halfwave.interop.neuralop_spectral import is_spherical
from halfwave.interop.peer_modules import FNO_OPTIONS, FOURIER_CONV, SPHERE_CONV, qualified_name
from halfwave.interop.peer_settings import PeerSettings, changing, check_scaled_padding, read_embedding, refuse
from halfwave.models import Factors, layer_factors, nonlinearity_name

_RECORD = ("_version", "args", "_name", "verbose")
_CLASSES = ("FNO", "TFNO", "SFNO")
_NORMS = ("group_norm", "instance_norm")


def read_metadata(recorded: Mapping[str, Any], n_dim: int) -> PeerSettings:
    """The settings that the `_metadata` of a state dict records: the arguments of the constructor."""
    given = {**recorded, **dict(zip(FNO_OPTIONS, recorded.get("args", ()), strict=False))}
    name = given.get("_name", "FNO")
    if name not in _CLASSES:
        raise ValueError(f"a state dict of the class {name!r} cannot be carried over: expected {', '.join(_CLASSES)}")
    unknown = [key for key, value in given.items() if key not in (*FNO_OPTIONS, *_RECORD) and value]
    if unknown:
        raise refuse(f"the option {unknown[0]}")
    _check_recorded(given)
    n_layers = given.get("n_layers", 4)
    scaling = _recorded_scaling(given.get("resolution_scaling_factor"), n_layers, n_dim)
    padding = _recorded_padding(given.get("domain_padding"))
    if padding is not None:
        check_scaled_padding(given.get("resolution_scaling_factor"), scaling)
    coordinates, boundaries = _recorded_embedding(given.get("positional_embedding", "grid"))
    mlp = given.get("use_channel_mlp", True)
    return PeerSettings(
        n_modes=tuple(given["n_modes"]) if "n_modes" in given else None,
        n_layers=n_layers,
        coordinates=coordinates,
        boundaries=boundaries,
        non_linearity=nonlinearity_name(given.get("non_linearity", "gelu")),
        norm=given.get("norm"),
        preactivation=bool(given.get("preactivation", False)),
        fno_skip=_lower(given.get("fno_skip", "linear")),
        channel_mlp_skip=_lower(given.get("channel_mlp_skip", "soft-gating")) if mlp else None,
        channel_mlp_dropout=float(given.get("channel_mlp_dropout", 0)) if mlp else 0.0,
        scaling=scaling,
        domain_padding=padding,
        stabilizer="tanh" if given.get("stabilizer") == "tanh" else None,
        implementation=given.get("implementation", "factorized"),
        sphere="equiangular" if name == "SFNO" or _is_sphere(given.get("conv_module")) else None,
    )


def _check_recorded(given: Mapping[str, Any]) -> None:
    if given.get("complex_data"):
        raise refuse("complex_data")
    if given.get("fno_block_precision", "full") != "full":
        raise refuse(f"fno_block_precision {given['fno_block_precision']!r} (ask for a precision instead)")
    if given.get("norm") not in (None, *_NORMS):
        raise refuse(f"the norm {given['norm']!r}")
    module = given.get("conv_module")
    if module is not None and not (isinstance(module, type) and qualified_name(module) in (FOURIER_CONV, SPHERE_CONV)):
        raise refuse(f"the convolution {getattr(module, '__name__', type(module).__name__)}")


def _is_sphere(module: Any) -> bool:
    return isinstance(module, type) and qualified_name(module) == SPHERE_CONV


def _recorded_scaling(given: Any, n_layers: int, n_dim: int) -> tuple[Factors, ...] | None:
    return changing(layer_factors(given, n_layers, n_dim))


def _recorded_padding(given: Any) -> Any:
    """Theirs pads for a positive number or a list with a positive sum, and for nothing else (a tuple, say)."""
    if isinstance(given, list):
        return given if sum(given) > 0 else None
    return given if isinstance(given, (int, float)) and given > 0 else None


def _recorded_embedding(given: Any) -> tuple[bool, tuple[tuple[float, float], ...] | None]:
    return (True, None) if isinstance(given, str) and given == "grid" else read_embedding(given)


def _lower(kind: str | None) -> str | None:
    return None if kind is None else kind.lower()


def read_keys(state: Mapping[str, Tensor], n_dim: int) -> PeerSettings:
    """What the names in a bare state dict show, and neuraloperator's defaults for what they do not.

    Not shown, and taken to be as by default: the nonlinearity (gelu), coordinates as channels, padding, the stabilizer,
    preactivation, scaling, an instance norm (none); a skip without weights is taken for the identity.
    """
    return PeerSettings(
        norm="group_norm" if "fno_blocks.norm.0.weight" in state else None,
        fno_skip=_skip_kind(state, "fno_blocks.fno_skips.0"),
        channel_mlp_skip=_skip_kind(state, "fno_blocks.channel_mlp_skips.0"),
        sphere="equiangular" if is_spherical(state, n_dim) else None,
    )


def _skip_kind(state: Mapping[str, Tensor], prefix: str) -> str:
    if f"{prefix}.conv.weight" in state:
        return "linear"
    return "soft-gating" if f"{prefix}.weight" in state else "identity"
