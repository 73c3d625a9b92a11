"""neuraloperator's GINO in ours: its graph kernels and latent FNO, weight by weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from halfwave.interop.neuralop_spectral import spectral_state, weight_arguments
from halfwave.models import GINO
from halfwave.models.mollifiers import MOLLIFIERS
from halfwave.precision import Policy

_KERNELS = ("gno_in", "gno_out")
_MLP = "integral_transform.channel_mlp.fcs"
_UNSUPPORTED = "this neuraloperator GINO uses {}, which halfwave's does not have"


def is_neuralop_gino(source: nn.Module | Mapping[str, Any]) -> bool:
    """Whether this is a neuraloperator GINO, or its state dict."""
    names = source.state_dict() if isinstance(source, nn.Module) else source
    return f"gno_in.{_MLP}.0.weight" in names


def from_neuralop_gino(
    source: nn.Module | Mapping[str, Any], precision: str | Policy, load_fno: Callable[[Any, dict[str, Tensor]], None]
) -> GINO:
    """A halfwave GINO with the weights of a neuraloperator GINO; `load_fno` carries over what an FNO has as well.

    It has to be the model itself: its state dict says nothing of radii, transforms and embeddings.
    """
    if not isinstance(source, nn.Module):
        raise ValueError("a GINO's state dict has neither its radii nor its transforms: expected the model itself")
    _check(source)
    state = {k: v.detach() for k, v in source.state_dict().items() if isinstance(v, Tensor)}
    model = GINO(**_arguments(source), **_weight_arguments(source, state), layout="neuralop", precision=precision)
    load_fno(model, state)
    with torch.no_grad():
        for name, parameter in kernel_parameters(model).items():
            parameter.copy_(state[name])
    return model


def kernel_parameters(model: GINO) -> dict[str, Tensor]:
    """The parameters of our graph kernels under neuraloperator's names."""
    return {
        f"{kernel}.{_MLP}.{name}": parameter
        for kernel in _KERNELS
        for name, parameter in getattr(model, kernel).fcs.named_parameters()
    }


def _check(peer: Any) -> None:
    """ValueError for what our GINO does not have."""
    blocks, kernels = peer.fno_blocks, [peer.gno_in.integral_transform, peer.gno_out.integral_transform]
    unsupported = {
        "fno_norm": peer.fno_norm is not None,
        "a resolution scaling factor": blocks.resolution_scaling_factor not in (None, [None] * blocks.n_layers),
        "preactivation": bool(blocks.preactivation),
        "a stabilizer": blocks.stabilizer is not None,
        "another nonlinearity": any(k.channel_mlp.non_linearity is not functional.gelu for k in kernels)
        or blocks.non_linearity is not functional.gelu,
    }
    given = [name for name, present in unsupported.items() if present]
    if given:
        raise ValueError(_UNSUPPORTED.format(", ".join(given)))


def _arguments(peer: Any) -> dict[str, Any]:
    blocks, hidden = peer.fno_blocks, peer.fno_hidden_channels
    embedding = peer.gno_in.pos_embedding or peer.gno_out.pos_embedding
    return {
        "in_channels": peer.in_channels,
        "out_channels": peer.out_channels,
        "latent_feature_channels": peer.latent_feature_channels,
        "projection_channel_ratio": peer.projection.hidden_channels / hidden,
        "gno_coord_dim": peer.gno_coord_dim,
        "in_gno_radius": peer.in_gno_radius,
        "out_gno_radius": peer.out_gno_radius,
        "in_gno_transform_type": peer.gno_in.integral_transform.transform_type,
        "out_gno_transform_type": peer.gno_out.integral_transform.transform_type,
        **_weighting(peer),
        "in_gno_pos_embed_type": _embedding_kind(peer.gno_in),
        "out_gno_pos_embed_type": _embedding_kind(peer.gno_out),
        "fno_in_channels": peer.fno_in_channels - (peer.latent_feature_channels or 0),
        "fno_n_modes": tuple(blocks.n_modes),
        "fno_hidden_channels": hidden,
        "fno_lifting_channel_ratio": peer.lifting.hidden_channels / hidden,
        "fno_n_layers": blocks.n_layers,
        "in_gno_channel_mlp_hidden_layers": _hidden_layers(peer.gno_in),
        "out_gno_channel_mlp_hidden_layers": _hidden_layers(peer.gno_out),
        "out_gno_tanh": peer.out_gno_tanh if peer.out_gno_tanh in ("latent_embed", "both") else None,
        "fno_channel_mlp_expansion": _expansion(blocks, hidden),
        "fno_skip": _skip_kind(blocks.fno_skips),
        "fno_channel_mlp_skip": _skip_kind(getattr(blocks, "channel_mlp_skips", None)),
        **({} if embedding is None else {"gno_embed_channels": embedding.num_frequencies}),
        **({} if embedding is None else {"gno_embed_max_positions": embedding.max_positions}),
    }


def _weight_arguments(peer: Any, state: Mapping[str, Tensor]) -> dict[str, Any]:
    found = weight_arguments(spectral_state(state, 0), len(peer.fno_blocks.n_modes))
    found["implementation"] = peer.fno_blocks.convs[0].implementation
    return {f"fno_{name}": value for name, value in found.items()}


def _embedding_kind(block: Any) -> str | None:
    return None if block.pos_embedding is None else str(block.pos_embedding.embedding_type)


def _hidden_layers(block: Any) -> tuple[int, ...]:
    return tuple(fc.out_features for fc in block.integral_transform.channel_mlp.fcs)[:-1]


def _weighting(peer: Any) -> dict[str, Any]:
    """Theirs is a partial function: `quartic_cutoff` of squared distances with its radius and scale."""
    function = peer.gno_out.integral_transform.weighting_fn
    if function is None:
        return {}
    name = function.func.__name__.removesuffix("_cutoff")
    if name not in MOLLIFIERS:
        raise ValueError(_UNSUPPORTED.format(f"the weighting function {name!r}"))
    return {"gno_weighting_function": name, "gno_weight_function_scale": function.keywords["scale"]}


def _expansion(blocks: Any, hidden: int) -> float | None:
    mlps = getattr(blocks, "channel_mlp", None)
    return None if mlps is None else mlps[0].hidden_channels / hidden


def _skip_kind(skips: Any) -> str | None:
    if skips is None:
        return None
    parameters = dict(skips[0].named_parameters())
    if "conv.weight" in parameters:
        return "linear"
    return "soft-gating" if "weight" in parameters else "identity"
