"""What sets neuraloperator's SFNO apart from its FNO.

Weights per degree, stored as real pairs (C, O, L, 2) or as factors with such a last axis, and a number of orders that
no weight tells of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.interop.neuralop_spectral import spectral_state, weight_arguments

# Arguments that FNO and SFNO share.
_SHARED = (
    "in_channels",
    "out_channels",
    "hidden_channels",
    "n_layers",
    "lifting_channel_ratio",
    "projection_channel_ratio",
    "positional_embedding",
    "fno_skip",
    "channel_mlp_skip",
    "channel_mlp_expansion",
    "implementation",
)


def is_spherical(source: nn.Module | Mapping[str, Any]) -> bool:
    """True for an SFNO, or the state dict of one (which neuraloperator's models give their arguments along with)."""
    if isinstance(source, nn.Module):
        return bool(_convolutions(source))
    # Its weights are real pairs; those of an FNO are complex.
    weights = [t for name, t in source.items() if _is_weight(name) and isinstance(t, Tensor)]
    return bool(weights) and all(not t.is_complex() and t.shape[-1] == 2 for t in weights)


def complex_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict with its spectral weights as complex tensors, as those of an FNO are."""
    return {name: torch.view_as_complex(t) if _is_weight(name) else t for name, t in state.items()}


def paired_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `complex_weights`."""
    return {name: torch.view_as_real(t) if _is_weight(name) else t for name, t in state.items()}


def spherical_arguments(
    source: nn.Module | Mapping[str, Any], arguments: Mapping[str, Any], state: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Arguments of `SFNO`, from those that were read for an `FNO` and what the model or its state dict records."""
    recorded = _recorded(source)
    if recorded.get("n_modes") is None:
        raise ValueError(
            "the weights of an SFNO do not say how many orders it keeps: give the model itself, or its state dict with "
            "the '_metadata' that neuraloperator puts there"
        )
    if recorded.get("domain_padding"):
        raise ValueError("this neuraloperator model uses domain_padding, which halfwave's SFNO does not have")
    found = {name: value for name, value in arguments.items() if name in _SHARED}
    found |= weight_arguments(spectral_state(state, 0), 1)
    found |= {"n_modes": tuple(recorded["n_modes"]), "in_channels": recorded["in_channels"], "sht_grids": _grid(source)}
    if recorded.get("positional_embedding", "grid") is None:
        found["positional_embedding"] = None
    return found


def _is_weight(name: str) -> bool:
    return name.startswith("fno_blocks.convs.") and ".weight." in name


def _recorded(source: nn.Module | Mapping[str, Any]) -> Mapping[str, Any]:
    """The constructor's arguments, which neuraloperator's models hold and put beside the weights of a state dict."""
    if isinstance(source, nn.Module):
        names = ("n_modes", "in_channels", "positional_embedding", "domain_padding")
        return {name: getattr(source, name, None) for name in names}
    recorded = source.get("_metadata")
    return recorded if isinstance(recorded, Mapping) else {}


def _grid(source: nn.Module | Mapping[str, Any]) -> str:
    """The grid of latitudes; neuraloperator's own models have no other than the equiangular one."""
    grids = sorted({kind for conv in _convolutions(source) for kind in conv.sht_grids}) or ["equiangular"]
    if len(grids) > 1:
        raise ValueError(f"this neuraloperator model mixes the grids {', '.join(grids)}: expected one of them")
    return grids[0]


def _convolutions(source: nn.Module | Mapping[str, Any]) -> list[Any]:
    modules = source.modules() if isinstance(source, nn.Module) else ()
    return [module for module in modules if type(module).__name__ == "SphericalConv"]
