"""neuraloperator's weights in our models, and back.

Nothing of neuraloperator is imported. A model of theirs is read by its attributes, a state dict by its names and the
`_metadata` that their models store in it; every name has to find its place, and every setting that changes an output is
carried over or raises ValueError, in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nextafter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from halfwave.interop.neuralop_gino import is_neuralop_gino, read_gino
from halfwave.interop.neuralop_names import export_weights, fno_blocks, freeze, load_weights
from halfwave.interop.neuralop_spectral import (
    complex_weights,
    paired_weights,
    spectral_modes,
    spectral_state,
    weight_arguments,
)
from halfwave.interop.peer_metadata import read_keys, read_metadata
from halfwave.interop.peer_model import read_model
from halfwave.interop.peer_modules import FNO_CLASS, GINO_CLASS, ancestor, check_modules
from halfwave.interop.peer_settings import PeerSettings, refuse
from halfwave.models import FNO, GINO, SFNO, GridEmbedding, settle_stabilizers
from halfwave.precision import Policy, as_policy
from halfwave.spectral import SphericalTransform

AnyModel = TypeVar("AnyModel", bound="FNO | SFNO | GINO")


def from_neuralop(source: nn.Module | Mapping[str, Any], precision: str | Policy = "full") -> FNO | SFNO | GINO:
    """A halfwave FNO, TFNO, SFNO or GINO with the weights of neuraloperator's, given as the model or as its state dict.

    In fp32 the outputs agree to rounding, on odd and on other output grids as well (`layout="neuralop"` repeats how
    theirs treats them); what ours cannot repeat raises ValueError. The result is on the device of the weights, in their
    dtype, in the mode (training or evaluation) of the model, with the same parameters frozen. The stabilizer of theirs
    becomes the policy's and stays through every change of precision, and so does its absence.

    A state dict says by its `_metadata` how the model was built, not what was changed in it since. A bare one, without
    it, says still less: the nonlinearity is then taken to be the gelu, coordinates to be channels, a skip without
    weights to be the identity, all modes that have weights to be kept, and there to be no padding, no stabilizer, no
    preactivation, no scaling and no instance norm. Give the model itself where that may be wrong.
    """
    if isinstance(source, nn.Module):
        return _from_model(source, precision)
    state = _tensors(source)
    if is_neuralop_gino(state):
        raise ValueError("a GINO's state dict has neither its radii nor its transforms: expected the model itself")
    n_dim = state["fno_blocks.convs.0.bias"].ndim - 1
    recorded = source.get("_metadata")
    settings = read_metadata(recorded, n_dim) if isinstance(recorded, Mapping) else read_keys(state, n_dim)
    return _filled(_build_fno(settings, state, precision), state)


def to_neuralop_state_dict(model: FNO | SFNO | GINO) -> dict[str, Tensor]:
    """The weights of a halfwave FNO, SFNO or GINO under neuraloperator's names and shapes, spectral ones complex."""
    state = export_weights(model)
    # On the sphere neuraloperator stores pairs, as we do.
    spherical = isinstance(fno_blocks(model)[0].conv.transform, SphericalTransform)
    return paired_weights(state) if spherical else state


def _from_model(source: Any, precision: str | Policy) -> FNO | SFNO | GINO:
    if ancestor(source, FNO_CLASS, GINO_CLASS) is None:
        raise ValueError(
            f"cannot carry over a {type(source).__name__}: expected an FNO, TFNO, SFNO or GINO of neuraloperator's"
        )
    check_modules(source)
    model: FNO | SFNO | GINO
    if ancestor(source, GINO_CLASS):
        state = _tensors(source.state_dict())
        stabilizer, arguments = read_gino(source, complex_weights(state))
        model = GINO(**arguments, layout="neuralop", precision=_policy(precision, stabilizer))
    else:
        settings = read_model(source)
        state = _tensors(source.state_dict())
        model = _build_fno(settings, state, precision)
    _filled(model, state)
    freeze(model, frozenset(name for name, p in source.named_parameters() if not p.requires_grad))
    return model.train(source.training)


def _filled(model: AnyModel, state: Mapping[str, Tensor]) -> AnyModel:
    """The model with these weights, in their dtype and on their device, and the stabilizer that they were trained with.

    That is tanh where the policy has it from theirs, and none otherwise, unless the user's policy names one.
    """
    model.to(_device(state), _dtype(state))
    load_weights(model, complex_weights(state))
    layers = [(f"blocks.{i}.conv", block.conv) for i, block in enumerate(fno_blocks(model))]
    named = {name: conv.policy.stabilizer for name, conv in layers}
    settle_stabilizers(model, {name: "none" if found == "auto" else found for name, found in named.items()})
    return model


def _tensors(items: Mapping[str, Any]) -> dict[str, Tensor]:
    state = {name: value for name, value in items.items() if name != "_metadata"}
    stray = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if "lifting.fcs.0.weight" not in state or "fno_blocks.convs.0.bias" not in state or stray is not None:
        found = "" if stray is None else f", and {stray!r} to be a tensor"
        raise ValueError(
            "not the weights of a neuraloperator FNO: expected 'lifting.fcs.0.weight' and 'fno_blocks.convs.0.bias' "
            f"among the names{found}"
        )
    return {name: tensor.detach() for name, tensor in state.items()}


def _dtype(state: Mapping[str, Tensor]) -> torch.dtype:
    numbers = [tensor for tensor in state.values() if tensor.is_complex() or tensor.is_floating_point()]
    dtypes = {tensor.real.dtype if tensor.is_complex() else tensor.dtype for tensor in numbers}
    if not dtypes <= {torch.float32, torch.float64}:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise ValueError(f"weights in {names} cannot be carried over: expected float32 or float64")
    # Torch's `double()` leaves complex weights as they are: the wider dtype holds all of them.
    return torch.float64 if torch.float64 in dtypes else torch.float32


def _device(state: Mapping[str, Tensor]) -> torch.device:
    return state["lifting.fcs.0.weight"].device


def _build_fno(settings: PeerSettings, state: Mapping[str, Tensor], precision: str | Policy) -> FNO | SFNO:
    n_dim = state["fno_blocks.convs.0.bias"].ndim - 1
    policy = _policy(precision, settings.stabilizer)
    arguments = _arguments(settings, complex_weights(state), n_dim)
    if settings.sphere is None:
        return FNO(**arguments, domain_padding=settings.domain_padding, layout="neuralop", precision=policy)
    if settings.domain_padding is not None:
        raise refuse("domain_padding on the sphere")
    return SFNO(**arguments, sht_grids=settings.sphere, layout="neuralop", precision=policy)


def _policy(precision: str | Policy, stabilizer: str | None) -> Policy:
    """The policy with the model's stabilizer, which is part of its function."""
    policy = as_policy(precision)
    if stabilizer is None:
        return policy
    parts = (policy, *(own for _, own in policy.layers))
    other = next((part.stabilizer for part in parts if part.stabilizer not in ("auto", stabilizer)), None)
    if other is not None:
        raise ValueError(f"this neuraloperator model has the stabilizer {stabilizer!r} and the policy has {other!r}")
    layers = tuple((name, replace(own, stabilizer=stabilizer)) for name, own in policy.layers)
    return replace(policy, stabilizer=stabilizer, layers=layers)


def _arguments(settings: PeerSettings, state: Mapping[str, Tensor], n_dim: int) -> dict[str, Any]:
    """Arguments that FNO and SFNO share: settings, and what the shapes of the weights tell."""
    hidden = len(state["fno_blocks.convs.0.bias"])
    lifting, projection = (_widths(state, name) for name in ("lifting", "projection"))
    mlp = state.get("fno_blocks.channel_mlp.0.fcs.0.weight")
    return {
        **_modes(settings, state, n_dim),
        **weight_arguments(spectral_state(state, 0), 1 if settings.sphere else n_dim),
        "in_channels": lifting[0] - (n_dim if settings.coordinates else 0),
        "out_channels": projection[2],
        "hidden_channels": hidden,
        "n_layers": _layers(settings, state),
        "lifting_channel_ratio": _ratio(lifting[1], hidden),
        "projection_channel_ratio": _ratio(projection[1], hidden),
        "positional_embedding": _embedding(settings),
        "non_linearity": settings.non_linearity,
        "norm": settings.norm,
        "preactivation": settings.preactivation,
        "fno_skip": settings.fno_skip,
        "channel_mlp_skip": settings.channel_mlp_skip,
        "use_channel_mlp": mlp is not None,
        "channel_mlp_expansion": 0.5 if mlp is None else len(mlp) / hidden,
        "channel_mlp_dropout": settings.channel_mlp_dropout,
        "resolution_scaling_factor": settings.scaling,
        "implementation": settings.implementation,
    }


def _widths(state: Mapping[str, Tensor], name: str) -> tuple[int, int, int]:
    """Channels of an outer MLP: in, hidden (0 for a linear map), out."""
    first, last = state[f"{name}.fcs.0.weight"], state.get(f"{name}.fcs.1.weight")
    return first.shape[1], 0 if last is None else len(first), len(first if last is None else last)


def _layers(settings: PeerSettings, state: Mapping[str, Tensor]) -> int:
    found = sum(name.startswith("fno_blocks.convs.") and name.endswith(".bias") for name in state)
    if settings.n_layers not in (None, found):
        raise ValueError(f"the weights are of {found} layers, and the model was built with {settings.n_layers}")
    return found


def _ratio(width: int, hidden: int) -> float:
    """width / hidden, such that int(ratio * hidden) is the width again."""
    ratio = width / hidden
    return ratio if int(ratio * hidden) == width else nextafter(ratio, inf)


def _embedding(settings: PeerSettings) -> str | GridEmbedding | None:
    if not settings.coordinates:
        return None
    return "grid" if settings.boundaries is None else GridEmbedding(settings.boundaries)


def _modes(settings: PeerSettings, state: Mapping[str, Tensor], n_dim: int) -> dict[str, Any]:
    """The modes that are kept, and those that have weights where they are more."""
    if settings.sphere:
        kept, owned = settings.n_modes, spectral_modes(state, 1)
        if kept is None:
            raise ValueError(
                "the weights of an SFNO do not say how many orders it keeps: give the model itself, or its state dict "
                "with the '_metadata' that neuraloperator puts there"
            )
        return {"n_modes": kept, "max_n_modes": None if kept[:1] == owned else (*owned, kept[1])}
    owned = spectral_modes(state, n_dim)
    # Along the last axis 2K - 1 modes, counted with both signs, have K weights, and so have 2K - 2.
    most = (*owned[:-1], 2 * owned[-1] - 1)
    kept = settings.n_modes or (*owned[:-1], max(1, 2 * owned[-1] - 2))
    return {"n_modes": kept, "max_n_modes": None if (*kept[:-1], kept[-1] // 2 + 1) == owned else most}
