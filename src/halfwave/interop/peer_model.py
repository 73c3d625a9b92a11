"""The settings of a neuraloperator FNO by the attributes that its `forward` uses.

What was changed after construction counts: modes that were lowered, layers that were replaced, another dropout.
What ours does not have raises, in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from halfwave.interop.peer_modules import (
    FOURIER_CONV,
    GROUP_NORM,
    IDENTITY,
    INSTANCE_NORM,
    LINEAR_SKIP,
    SOFT_GATING,
    SPHERE_CONV,
    ancestor,
    qualified_name,
)
from halfwave.interop.peer_settings import PeerSettings, changing, check_scaled_padding, read_embedding, refuse
from halfwave.models import Factors, layer_factors, nonlinearity_name

_NORMS = {GROUP_NORM: "group_norm", INSTANCE_NORM: "instance_norm"}
_SKIPS = {LINEAR_SKIP: "linear", SOFT_GATING: "soft-gating", IDENTITY: "identity"}


def read_model(model: Any) -> PeerSettings:
    """The settings of an FNO of theirs, by its attributes; ValueError for what ours does not have."""
    blocks = model.fno_blocks
    if len({model.n_layers, blocks.n_layers, len(blocks.convs)}) > 1:
        raise refuse(f"{model.n_layers} of {len(blocks.convs)} layers")
    if model.complex_data or blocks.complex_data:
        raise refuse("complex_data")
    sigma = {nonlinearity_name(part.non_linearity) for part in (model.lifting, model.projection, blocks)}
    if len(sigma) > 1:
        raise refuse(f"several nonlinearities, {' and '.join(sorted(sigma))}")
    _check_plain_mlp("lifting", model.lifting)
    _check_plain_mlp("projection", model.projection)
    padding = model.domain_padding
    coordinates, boundaries = read_embedding(model.positional_embedding)
    convolutions = read_convolutions(blocks, model.n_modes)
    if padding is not None:
        check_scaled_padding(padding.resolution_scaling_factor, convolutions["scaling"])
    return PeerSettings(
        **convolutions,
        **read_blocks(blocks),
        n_layers=blocks.n_layers,
        coordinates=coordinates,
        boundaries=boundaries,
        domain_padding=None if padding is None else padding.domain_padding,
        training=model.training,
    )


def read_blocks(blocks: Any) -> dict[str, Any]:
    """What the FNO blocks of a model do beside their convolutions."""
    mlps = list(blocks.channel_mlp) if blocks.use_channel_mlp else []
    for mlp in mlps:
        if nonlinearity_name(mlp.non_linearity) != "gelu" or len(mlp.fcs) != 2 or mlp.n_layers != 2:
            raise refuse("a channel MLP that is not two layers with a gelu between them")
    return {
        "non_linearity": nonlinearity_name(blocks.non_linearity),
        "norm": _read_norm(blocks),
        "preactivation": bool(blocks.preactivation),
        "fno_skip": _read_skip(blocks.fno_skips),
        "channel_mlp_skip": _read_skip(blocks.channel_mlp_skips) if mlps else None,
        "channel_mlp_dropout": _read_dropout(blocks, mlps),
        "stabilizer": "tanh" if blocks.stabilizer == "tanh" else None,
    }


def read_convolutions(blocks: Any, n_modes: Sequence[int]) -> dict[str, Any]:
    """What the spectral convolutions of a model do; `n_modes` are what the model says it keeps."""
    convs = list(blocks.convs)
    for conv in convs:
        _check_convolution(conv)
    kept = _one("n_modes", [tuple(conv.n_modes) for conv in convs])
    sphere = ancestor(convs[0], SPHERE_CONV) is not None
    scaling = [conv.resolution_scaling_factor for conv in convs]
    return {
        "n_modes": kept if sphere else _user_modes(kept, tuple(n_modes)),
        "implementation": _one("implementation", [conv.implementation for conv in convs]),
        "scaling": changing(_read_factors(factors, len(kept)) for factors in scaling),
        "sphere": _one("sht_grids", [conv.sht_grids[0] for conv in convs]) if sphere else None,
    }


def _user_modes(kept: tuple[int, ...], said: tuple[int, ...]) -> tuple[int, ...]:
    """The modes as a user counts them, from those that are kept, frequencies 0 .. K-1 along the last axis."""
    return said if (*said[:-1], said[-1] // 2 + 1) == kept else (*kept[:-1], max(1, 2 * (kept[-1] - 1)))


def _check_convolution(conv: Any) -> None:
    sphere = ancestor(conv, SPHERE_CONV) is not None
    if not sphere and ancestor(conv, FOURIER_CONV) is None:
        raise refuse(f"the convolution {type(conv).__name__}")
    if conv.bias is None:
        raise refuse("convolutions without a bias")
    if not str(getattr(conv._contract, "__module__", "")).startswith("neuralop."):
        raise refuse("a contraction of its own")
    if sphere:
        _check_sphere(conv)
    elif conv.fft_norm != "forward":
        raise refuse(f"fft_norm {conv.fft_norm!r}")
    elif conv.fno_block_precision != "full":
        raise refuse(f"fno_block_precision {conv.fno_block_precision!r} (ask for a precision instead)")
    elif conv.complex_data:
        raise refuse("complex_data")


def _check_sphere(conv: Any) -> None:
    if conv.sht_norm != "ortho":
        raise refuse(f"sht_norm {conv.sht_norm!r}")
    if len(set(conv.sht_grids)) > 1:
        raise refuse(f"the grids {' and '.join(conv.sht_grids)} in one layer")
    if conv.separable:
        raise refuse("separable weights on the sphere")


def _read_factors(factors: Any, dim: int) -> Factors | None:
    return None if factors is None else layer_factors([list(factors)], 1, dim)[0]


def _read_norm(blocks: Any) -> str | None:
    if blocks.norm is None:
        return None
    name = _one("norm", [qualified_name(type(norm)) for norm in blocks.norm])
    if name not in _NORMS:
        raise refuse(f"the norm {type(blocks.norm[0]).__name__}")
    if name == GROUP_NORM and any((norm.num_groups, norm.eps, norm.affine) != (1, 1e-5, True) for norm in blocks.norm):
        raise refuse("a group norm that is not of one group, with weights and eps 1e-5")
    if name == INSTANCE_NORM and any(norm.kwargs for norm in blocks.norm):
        raise refuse("an instance norm with options")
    return _NORMS[name]


def _read_skip(skips: Any) -> str | None:
    if skips is None:
        return None
    name = _one("skips", [qualified_name(type(skip)) for skip in skips])
    if name not in _SKIPS:
        raise refuse(f"the skip {type(skips[0]).__name__}")
    return _SKIPS[name]


def _read_dropout(blocks: Any, mlps: Iterable[Any]) -> float:
    layers = [dropout for mlp in mlps for dropout in (mlp.dropout or [None])]
    if any(layer is not None and layer.training != blocks.training for layer in layers):
        raise refuse("dropout layers in another mode than the model: call train() or eval() on all of it")
    return float(_one("dropout", [0.0 if layer is None else layer.p for layer in layers] or [0.0]))


def _check_plain_mlp(name: str, mlp: Any) -> None:
    if mlp.dropout is not None or mlp.n_layers != len(mlp.fcs) or len(mlp.fcs) > 2:
        raise refuse(f"a {name} that is not of one or two layers without dropout")


def _one(name: str, values: list[Any]) -> Any:
    if any(value != values[0] for value in values):
        raise refuse(f"layers that differ in {name}")
    return values[0]
