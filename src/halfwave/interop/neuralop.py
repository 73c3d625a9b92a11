"""neuraloperator's weights in our models, and back.

Nothing of neuraloperator is imported: a model of theirs is read by the names of its parameters, which a plain state
dict has as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.interop.neuralop_gino import from_neuralop_gino, is_neuralop_gino, kernel_parameters
from halfwave.models import FNO, GINO
from halfwave.precision import Policy


def from_neuralop(source: nn.Module | Mapping[str, Any], precision: str | Policy = "full") -> FNO | GINO:
    """A halfwave FNO with the weights of a neuraloperator FNO, given as the model or as its state dict.

    In fp32 the outputs agree to rounding, on odd grids as well (`layout="neuralop"` repeats how theirs treats them).
    A state dict does not say how many modes the last axis counts; 2(K-1) is taken, which keeps the same frequencies.
    """
    if is_neuralop_gino(source):
        return from_neuralop_gino(source, precision, _load)
    state = _tensors(source)
    arguments = _fno_arguments(state)
    if isinstance(source, nn.Module):
        arguments |= _module_arguments(source)
    model = FNO(**arguments, layout="neuralop", precision=precision)
    _load(model, state)
    return model


def to_neuralop_state_dict(model: FNO | GINO) -> dict[str, Tensor]:
    """The weights of a halfwave FNO under neuraloperator's names and shapes (complex spectral weights)."""
    state: dict[str, Tensor] = {}
    if isinstance(model, GINO):
        state |= {name: parameter.detach().clone() for name, parameter in kernel_parameters(model).items()}
    for ours, theirs in _linear_names(model):
        weight = ours.detach()
        state[theirs] = weight.unsqueeze(-1).clone() if weight.ndim == 2 else weight.clone()
    for i, block in enumerate(model.blocks):
        prefix = f"fno_blocks.convs.{i}"
        state[f"{prefix}.weight.tensor"] = block.conv.weight.dense().detach().clone()  # type: ignore[union-attr,operator]
        bias = block.conv.bias.detach()  # type: ignore[union-attr,operator]
        state[f"{prefix}.bias"] = bias.view(-1, *[1] * model.n_dim).clone()
        if block.mlp_skip.kind == "soft-gating":  # type: ignore[union-attr]
            key = f"fno_blocks.channel_mlp_skips.{i}.weight"
            state[key] = state[key].view(1, -1, *[1] * model.n_dim)
    return state


def _tensors(source: nn.Module | Mapping[str, Any]) -> dict[str, Tensor]:
    items = source.state_dict() if isinstance(source, nn.Module) else source
    state = {k: v.detach() for k, v in items.items() if isinstance(v, Tensor)}
    if "lifting.fcs.0.weight" not in state or "fno_blocks.convs.0.weight.tensor" not in state:
        raise ValueError(
            "not the weights of a neuraloperator FNO with dense spectral weights: expected "
            "'lifting.fcs.0.weight' and 'fno_blocks.convs.0.weight.tensor' among the names"
        )
    return state


def _fno_arguments(state: Mapping[str, Tensor]) -> dict[str, Any]:
    spectral = state["fno_blocks.convs.0.weight.tensor"]
    hidden, _, *modes = spectral.shape
    lifting, projection = state["lifting.fcs.0.weight"], state["projection.fcs.1.weight"]
    n_layers = sum(1 for name in state if name.startswith("fno_blocks.convs.") and name.endswith(".weight.tensor"))
    return {
        "n_modes": (*modes[:-1], 2 * (modes[-1] - 1) if modes[-1] > 1 else 1),
        # The grid's coordinates are channels of theirs; without the module itself it has to be assumed that they are.
        "in_channels": lifting.shape[1] - len(modes),
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


def _module_arguments(model: nn.Module) -> dict[str, Any]:
    """What only the module knows: exact modes, absent skips, the embedding, padding; and what we do not have."""
    blocks = model.fno_blocks
    unsupported = {
        "norm": getattr(blocks, "norm", None) is not None,
        "complex_data": bool(getattr(model, "complex_data", False)),
        "preactivation": bool(getattr(model, "preactivation", False)),
        "separable": bool(getattr(model, "separable", False)),
        "resolution_scaling_factor": getattr(model, "resolution_scaling_factor", None) is not None,
    }
    given = [name for name, present in unsupported.items() if present]
    if given:
        raise ValueError(f"this neuraloperator model uses {', '.join(given)}, which halfwave's FNO does not have")
    found: dict[str, Any] = {"n_modes": tuple(model.n_modes), "in_channels": model.in_channels}  # type: ignore[arg-type]
    if model.positional_embedding is None:
        found["positional_embedding"] = None
    if blocks.fno_skips is None:  # type: ignore[union-attr]
        found["fno_skip"] = None
    if getattr(blocks, "channel_mlp_skips", None) is None:
        found["channel_mlp_skip"] = None
    if model.domain_padding is not None:
        found["domain_padding"] = model.domain_padding.domain_padding  # type: ignore[union-attr]
    return found


@torch.no_grad()
def _load(model: FNO | GINO, state: Mapping[str, Tensor]) -> None:
    for ours, theirs in _linear_names(model):
        ours.copy_(state[theirs].reshape(ours.shape))
    for i, block in enumerate(model.blocks):
        block.conv.weight.set_dense(state[f"fno_blocks.convs.{i}.weight.tensor"])  # type: ignore[union-attr,operator]
        block.conv.bias.copy_(state[f"fno_blocks.convs.{i}.bias"].flatten())  # type: ignore[union-attr,operator]


def _linear_names(model: FNO | GINO) -> list[tuple[Tensor, str]]:
    """Our pointwise parameters beside neuraloperator's names of them."""
    names: list[tuple[Tensor, str]] = []
    for part in ("lifting", "projection"):
        names += _mlp_names(getattr(model, part), part)
    for i, block in enumerate(model.blocks):
        if block.skip.kind == "linear":  # type: ignore[union-attr]
            names.append((block.skip.weight, f"fno_blocks.fno_skips.{i}.conv.weight"))  # type: ignore[union-attr,arg-type]
        elif block.skip.kind == "soft-gating":  # type: ignore[union-attr]
            names.append((block.skip.weight, f"fno_blocks.fno_skips.{i}.weight"))  # type: ignore[union-attr,arg-type]
        if block.mlp is not None:
            names += _mlp_names(block.mlp, f"fno_blocks.channel_mlp.{i}")  # type: ignore[arg-type]
        if block.mlp_skip.kind == "linear":  # type: ignore[union-attr]
            names.append((block.mlp_skip.weight, f"fno_blocks.channel_mlp_skips.{i}.conv.weight"))  # type: ignore[union-attr,arg-type]
        elif block.mlp_skip.kind == "soft-gating":  # type: ignore[union-attr]
            names.append((block.mlp_skip.weight, f"fno_blocks.channel_mlp_skips.{i}.weight"))  # type: ignore[union-attr,arg-type]
    return names


def _mlp_names(mlp: nn.Module, prefix: str) -> list[tuple[Tensor, str]]:
    return [
        (getattr(fc, kind), f"{prefix}.fcs.{j}.{kind}")
        for j, fc in enumerate(mlp.fcs)  # type: ignore[arg-type]
        for kind in ("weight", "bias")
    ]
