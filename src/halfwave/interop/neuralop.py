"""neuraloperator's weights in our models, and back.

Nothing of neuraloperator is imported: a model of theirs is read by the names of its parameters, which a plain state
dict has as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from halfwave.interop.neuralop_gino import from_neuralop_gino, is_neuralop_gino, kernel_parameters
from halfwave.interop.neuralop_sfno import complex_weights, is_spherical, paired_weights, spherical_arguments
from halfwave.interop.neuralop_spectral import spectral_arguments, spectral_state
from halfwave.models import FNO, GINO, SFNO
from halfwave.models.block import FNOBlock, Skip
from halfwave.models.pointwise import ChannelMLP
from halfwave.precision import Policy


def from_neuralop(source: nn.Module | Mapping[str, Any], precision: str | Policy = "full") -> FNO | SFNO | GINO:
    """A halfwave FNO, TFNO, SFNO or GINO with the weights of neuraloperator's, given as the model or as its state dict.

    In fp32 the outputs agree to rounding, on odd grids as well (`layout="neuralop"` repeats how theirs treats them).
    Dense, CP, Tucker and TT weights come over as they are, separable ones too (but for the sphere's). A state dict does
    not say how many modes the last axis counts; 2(K-1) is taken, which keeps the same frequencies.
    """
    if is_neuralop_gino(source):
        return from_neuralop_gino(source, precision, _load)
    state = _tensors(source)
    spherical = is_spherical(source)
    if spherical:
        state = complex_weights(state)
    arguments = _fno_arguments(state)
    if isinstance(source, nn.Module):
        arguments |= _module_arguments(source)
    model: FNO | SFNO
    if spherical:
        model = SFNO(**spherical_arguments(source, arguments, state), precision=precision)
    else:
        model = FNO(**arguments, layout="neuralop", precision=precision)
    _load(model, state)
    return model


def to_neuralop_state_dict(model: FNO | SFNO | GINO) -> dict[str, Tensor]:
    """The weights of a halfwave FNO, SFNO or GINO under neuraloperator's names and shapes, spectral ones complex."""
    state: dict[str, Tensor] = {}
    if isinstance(model, GINO):
        state |= {name: parameter.detach().clone() for name, parameter in kernel_parameters(model).items()}
    for ours, theirs in _linear_names(model):
        weight = ours.detach()
        state[theirs] = weight.unsqueeze(-1).clone() if weight.ndim == 2 else weight.clone()
    for i, block in enumerate(_blocks(model)):
        prefix = f"fno_blocks.convs.{i}"
        state |= {f"{prefix}.weight.{name}": t.clone() for name, t in block.conv.weight.complex_state().items()}
        if block.conv.bias is not None:
            state[f"{prefix}.bias"] = block.conv.bias.detach().view(-1, *[1] * model.n_dim).clone()
        if block.mlp_skip.kind == "soft-gating":
            key = f"fno_blocks.channel_mlp_skips.{i}.weight"
            state[key] = state[key].view(1, -1, *[1] * model.n_dim)
    return paired_weights(state) if isinstance(model, SFNO) else state


def _tensors(source: nn.Module | Mapping[str, Any]) -> dict[str, Tensor]:
    items = source.state_dict() if isinstance(source, nn.Module) else source
    state = {k: v.detach() for k, v in items.items() if isinstance(v, Tensor)}
    if "lifting.fcs.0.weight" not in state or "fno_blocks.convs.0.bias" not in state:
        raise ValueError(
            "not the weights of a neuraloperator FNO: expected 'lifting.fcs.0.weight' and 'fno_blocks.convs.0.bias' "
            "among the names"
        )
    return state


def _fno_arguments(state: Mapping[str, Tensor]) -> dict[str, Any]:
    spectral = spectral_arguments(state)
    lifting, projection = state["lifting.fcs.0.weight"], state["projection.fcs.1.weight"]
    hidden = len(state["fno_blocks.convs.0.bias"])
    n_layers = sum(1 for name in state if name.startswith("fno_blocks.convs.") and name.endswith(".bias"))
    return {
        **spectral,
        # The grid's coordinates are channels of theirs; without the module itself it has to be assumed that they are.
        "in_channels": lifting.shape[1] - len(spectral["n_modes"]),
        "out_channels": projection.shape[0],
        "hidden_channels": hidden,
        "n_layers": n_layers,
        "lifting_channel_ratio": lifting.shape[0] / hidden,
        "projection_channel_ratio": projection.shape[1] / hidden,
        "fno_skip": _skip_kind(state, "fno_blocks.fno_skips.0"),
        "channel_mlp_skip": _skip_kind(state, "fno_blocks.channel_mlp_skips.0"),
        "channel_mlp_expansion": _expansion(state, hidden),
    }


def _skip_kind(state: Mapping[str, Tensor], prefix: str) -> str | None:
    if f"{prefix}.conv.weight" in state:
        return "linear"
    return "soft-gating" if f"{prefix}.weight" in state else "identity"


def _expansion(state: Mapping[str, Tensor], hidden: int) -> float | None:
    first = state.get("fno_blocks.channel_mlp.0.fcs.0.weight")
    return None if first is None else first.shape[0] / hidden


def _module_arguments(model: Any) -> dict[str, Any]:
    """What only the module knows: exact modes, absent skips, the embedding, padding; and what we do not have."""
    blocks = model.fno_blocks
    unsupported = {
        "norm": getattr(blocks, "norm", None) is not None,
        "complex_data": bool(getattr(model, "complex_data", False)),
        "preactivation": bool(getattr(model, "preactivation", False)),
        "resolution_scaling_factor": getattr(model, "resolution_scaling_factor", None) is not None,
    }
    given = [name for name, present in unsupported.items() if present]
    if given:
        raise ValueError(f"this neuraloperator model uses {', '.join(given)}, which halfwave's FNO does not have")
    found: dict[str, Any] = {"n_modes": tuple(model.n_modes), "in_channels": model.in_channels}
    found["implementation"] = blocks.convs[0].implementation
    if model.positional_embedding is None:
        found["positional_embedding"] = None
    if blocks.fno_skips is None:
        found["fno_skip"] = None
    if getattr(blocks, "channel_mlp_skips", None) is None:
        found["channel_mlp_skip"] = None
    if model.domain_padding is not None:
        found["domain_padding"] = model.domain_padding.domain_padding
    return found


@torch.no_grad()
def _load(model: FNO | SFNO | GINO, state: Mapping[str, Tensor]) -> None:
    for ours, theirs in _linear_names(model):
        ours.copy_(state[theirs].reshape(ours.shape))
    for i, block in enumerate(_blocks(model)):
        block.conv.weight.load_complex_state(spectral_state(state, i))
        if block.conv.bias is not None:
            block.conv.bias.copy_(state[f"fno_blocks.convs.{i}.bias"].flatten())


def _blocks(model: FNO | SFNO | GINO) -> list[FNOBlock]:
    return [cast(FNOBlock, block) for block in model.blocks]


def _linear_names(model: FNO | SFNO | GINO) -> list[tuple[Tensor, str]]:
    """Our pointwise parameters beside neuraloperator's names of them."""
    names = [*_mlp_names(model.lifting, "lifting"), *_mlp_names(model.projection, "projection")]
    for i, block in enumerate(_blocks(model)):
        names += _skip_names(block.skip, f"fno_blocks.fno_skips.{i}")
        if block.mlp is not None:
            names += _mlp_names(block.mlp, f"fno_blocks.channel_mlp.{i}")
        names += _skip_names(block.mlp_skip, f"fno_blocks.channel_mlp_skips.{i}")
    return names


def _skip_names(skip: Skip, prefix: str) -> list[tuple[Tensor, str]]:
    if skip.kind == "linear":
        return [(skip.weight, f"{prefix}.conv.weight")]
    return [(skip.weight, f"{prefix}.weight")] if skip.kind == "soft-gating" else []


def _mlp_names(mlp: ChannelMLP, prefix: str) -> list[tuple[Tensor, str]]:
    return [
        (parameter, f"{prefix}.fcs.{j}.{kind}")
        for j, fc in enumerate(mlp.fcs)
        for kind, parameter in fc.named_parameters()
    ]
