"""neuraloperator's GINO in ours: the settings of its graph kernels and of its latent FNO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from halfwave.interop.neuralop_spectral import spectral_modes, spectral_state, weight_arguments
from halfwave.interop.peer_model import read_blocks, read_convolutions
from halfwave.interop.peer_settings import PeerSettings, refuse
from halfwave.models import MOLLIFIERS, nonlinearity_name

# What the blocks of our GINO take from an FNO's settings.
_CARRIED = ("n_modes", "n_layers", "fno_skip", "channel_mlp_skip", "implementation", "stabilizer")


def is_neuralop_gino(names: Iterable[str]) -> bool:
    """Whether these are the names of a neuraloperator GINO's weights."""
    return any(name.startswith("gno_in.") for name in names)


def read_gino(peer: Any, state: Mapping[str, Tensor]) -> tuple[str | None, dict[str, Any]]:
    """Its stabilizer and the arguments of our GINO; ValueError for what ours does not have."""
    blocks = peer.fno_blocks
    settings = PeerSettings(**read_blocks(blocks), **read_convolutions(blocks, blocks.n_modes))
    _check_fno(settings, spectral_modes(state, len(blocks.n_modes)))
    _check_kernels(peer)
    arguments = {**_arguments(peer, settings), **_weight_arguments(settings, state, len(blocks.n_modes))}
    return settings.stabilizer, arguments


def _check_fno(settings: PeerSettings, owned: tuple[int, ...]) -> None:
    """ValueError for a setting of the blocks that is not neuraloperator's default and that our GINO does not have."""
    default = PeerSettings()
    for name in vars(settings):
        if name not in _CARRIED and getattr(settings, name) != getattr(default, name):
            raise refuse(f"{name} {getattr(settings, name)!r} in a GINO")
    modes = settings.n_modes or owned
    if (*modes[:-1], modes[-1] // 2 + 1) != owned:
        raise refuse(f"weights for {owned} modes in a GINO that keeps {modes}")


def _check_kernels(peer: Any) -> None:
    kernels = [peer.gno_in.integral_transform, peer.gno_out.integral_transform]
    layers = [peer.lifting, peer.projection, *(kernel.channel_mlp for kernel in kernels)]
    for layer in layers:
        if nonlinearity_name(layer.non_linearity) != "gelu":
            raise refuse(f"another nonlinearity than the gelu in a GINO, {nonlinearity_name(layer.non_linearity)}")
        if layer.dropout is not None:
            raise refuse("dropout in a GINO")
    if kernels[0].weighting_fn is not None or [kernel.reduction for kernel in kernels] != ["mean", "sum"]:
        raise refuse("other reductions or weightings of the graph kernels")
    if (peer.gno_in.radius, peer.gno_out.radius) != (peer.in_gno_radius, peer.out_gno_radius):
        raise refuse("radii of the graph kernels that are not the model's")
    found = [block.pos_embedding for block in (peer.gno_in, peer.gno_out) if block.pos_embedding is not None]
    if len({(embedding.num_frequencies, embedding.max_positions) for embedding in found}) > 1:
        raise refuse("different frequencies in the embeddings of the graph kernels")


def _arguments(peer: Any, settings: PeerSettings) -> dict[str, Any]:
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
        "fno_n_modes": settings.n_modes,
        "fno_hidden_channels": hidden,
        "fno_lifting_channel_ratio": peer.lifting.hidden_channels / hidden,
        "fno_n_layers": blocks.n_layers,
        "in_gno_channel_mlp_hidden_layers": _hidden_layers(peer.gno_in),
        "out_gno_channel_mlp_hidden_layers": _hidden_layers(peer.gno_out),
        "out_gno_tanh": peer.out_gno_tanh if peer.out_gno_tanh in ("latent_embed", "both") else None,
        "fno_channel_mlp_expansion": _expansion(blocks, hidden),
        "fno_skip": settings.fno_skip,
        "fno_channel_mlp_skip": settings.channel_mlp_skip,
        **({} if embedding is None else {"gno_embed_channels": embedding.num_frequencies}),
        **({} if embedding is None else {"gno_embed_max_positions": embedding.max_positions}),
    }


def _weight_arguments(settings: PeerSettings, state: Mapping[str, Tensor], n_dim: int) -> dict[str, Any]:
    found = weight_arguments(spectral_state(state, 0), n_dim)
    return {f"fno_{name}": value for name, value in {**found, "implementation": settings.implementation}.items()}


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
        raise refuse(f"the weighting function {name!r}")
    return {"gno_weighting_function": name, "gno_weight_function_scale": function.keywords["scale"]}


def _expansion(blocks: Any, hidden: int) -> float | None:
    mlps = getattr(blocks, "channel_mlp", None)
    return None if mlps is None else mlps[0].hidden_channels / hidden
