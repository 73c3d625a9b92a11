"""convert: the spectral convolutions inside somebody's own module, in place, in ours.

Any module that is built around neuraloperator's `SpectralConv` or `SphericalConv` gets real-pair weights, transforms
that compute kept modes only, and a precision policy. neuraloperator's `ChannelMLP`, which stands beside them in its
own models, becomes ours as well: it is what the `pointwise` format acts on, and in fp32 it computes the same with a
fraction of the memory (an FNO of theirs keeps 28 fields for the backward pass, of which the spectra are one).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from halfwave.errors import InputError
from halfwave.interop.converted import ConvertedChannelMLP, ConvertedConv
from halfwave.interop.neuralop_spectral import both_signs, weight_arguments
from halfwave.interop.peer_modules import FOURIER_CONV, SPHERE_CONV, ancestor, has_hooks, qualified_name
from halfwave.models import ChannelMLP
from halfwave.precision import Policy, as_policy
from halfwave.spectral import SpectralConv, SphericalTransform

_BASE = "neuralop.layers.base_spectral_conv.BaseSpectralConv"
_MLP = "neuralop.layers.channel_mlp.ChannelMLP"


def convert(model: nn.Module, policy: str | Policy) -> nn.Module:
    """Put ours in the place of every neuraloperator spectral convolution in `model`, weights kept; returns the model.

    Converted are `SpectralConv` in 1 to 3 dimensions and `SphericalConv`, with dense, CP, Tucker and TT weights. Each
    answers the calls that it answered before, in the dtype of its input, and equals the old one but for the rounding
    of `policy`, odd grids and other output grids included. A `ChannelMLP` of two layers with GELU and without dropout
    becomes ours in the policy's `pointwise` format. Everything else stays as it is, in the dtypes that it has.
    `hw.set_precision` changes the policy later.

    A layer that stands in several places is converted once, and weights that two of them share stay shared.
    Parameters are new ones, on the device of the old, trained where those were: make the optimizer afterwards. A
    convolution that cannot be converted raises InputError and leaves the model as it was. Where `model` is a
    convolution itself, the one that takes its place is returned.
    """
    chosen = as_policy(policy)
    found = {name: module for name, module in model.named_modules() if ancestor(module, _BASE)}
    if not found:
        raise InputError(
            f"{type(model).__name__} has no spectral convolution of neuraloperator: expected a module with its "
            "SpectralConv or SphericalConv inside (set_precision changes the policy of a halfwave model)"
        )
    shared: dict[int, Any] = {}
    ours: dict[int, nn.Module] = {id(m): _convert_conv(name, m, chosen, shared) for name, m in found.items()}
    ours |= {id(m): _convert_mlp(m, chosen) for m in model.modules() if _is_plain_mlp(m)}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if id(child) in ours:
                parent.add_module(name, ours[id(child)])
    return ours.get(id(model), model)


def _convert_conv(name: str, module: Any, policy: Policy, shared: dict[int, Any]) -> ConvertedConv:
    """Our convolution for one of theirs, called `name` in the model; `shared` holds what others share with it."""
    _check(name, module)
    state = {part: tensor.detach() for part, tensor in module.weight.state_dict().items()}
    conv = _fourier_conv(module, state) if ancestor(module, FOURIER_CONV) else _spherical_conv(module, state)
    first = next(iter(state.values()))
    conv.to(first.device, first.real.dtype)
    conv.weight.requires_grad_(any(p.requires_grad for p in module.weight.parameters()))
    conv.weight = shared.setdefault(id(module.weight), conv.weight)
    if conv.bias is not None:
        _copy(conv.bias, module.bias)
        conv.bias = shared.setdefault(id(module.bias), conv.bias)
    conv.set_precision(policy)
    return ConvertedConv(conv, list(module.n_modes), module.resolution_scaling_factor).train(module.training)


def _fourier_conv(module: Any, state: dict[str, Tensor]) -> SpectralConv:
    conv = SpectralConv(
        module.in_channels,
        module.out_channels,
        (*module.n_modes[:-1], both_signs(module.n_modes[-1])),
        bias=module.bias is not None,
        implementation=module.implementation,
        layout="neuralop",
        **weight_arguments(state, module.order),
    )
    conv.weight.load_complex_state(state)
    return conv


def _spherical_conv(module: Any, state: dict[str, Tensor]) -> SpectralConv:
    """Its weights are real pairs already, (..., 2), with one axis of modes: the degrees."""
    state = {part: torch.view_as_complex(pairs.contiguous()) for part, pairs in state.items()}
    degrees, doubled = module.n_modes
    transform = SphericalTransform((degrees, doubled), module.sht_grids[0], layout="neuralop")
    conv = SpectralConv(
        module.in_channels,
        module.out_channels,
        transform.n_modes,
        bias=module.bias is not None,
        implementation=module.implementation,
        transform=transform,
        **weight_arguments(state, 1),
    )
    conv.weight.load_complex_state(state)
    return conv


def _is_plain_mlp(module: Any) -> bool:
    """A `ChannelMLP` of theirs that computes what ours does."""
    return (
        qualified_name(type(module)) == _MLP
        and len(module.fcs) == 2
        and module.dropout is None
        and module.non_linearity is functional.gelu
        and not has_hooks(module)
        and not module.fcs[0].weight.is_complex()
    )


def _convert_mlp(module: Any, policy: Policy) -> ConvertedChannelMLP:
    first, last = module.fcs
    mlp = ChannelMLP(first.in_channels, first.out_channels, last.out_channels, policy)
    mlp.to(first.weight.device, first.weight.dtype)
    for ours, theirs in zip(mlp.fcs.parameters(), module.fcs.parameters(), strict=True):
        _copy(ours, theirs)
    return ConvertedChannelMLP(mlp).train(module.training)


@torch.no_grad()
def _copy(ours: nn.Parameter, theirs: nn.Parameter) -> None:
    ours.copy_(theirs.reshape(ours.shape))
    ours.requires_grad_(theirs.requires_grad)


def _check(name: str, module: Any) -> None:
    """InputError for what ours cannot repeat."""
    place = f"{name or 'the model'} ({type(module).__name__})"
    known = ancestor(module, FOURIER_CONV) or ancestor(module, SPHERE_CONV)
    if known is None:
        raise InputError(f"{place} cannot be converted: expected neuraloperator's SpectralConv or SphericalConv")
    own = [method for method in ("forward", "transform") if getattr(type(module), method) is not vars(known)[method]]
    if own:
        raise InputError(f"{place} cannot be converted: it has a {own[0]} of its own, which ours would not run")
    problem = _fourier_problem(module) if ancestor(module, FOURIER_CONV) else _spherical_problem(module)
    if has_hooks(module):
        problem = "hooks, which would be lost: remove them first"
    if problem:
        raise InputError(f"{place} cannot be converted: it has {problem}")


def _fourier_problem(module: Any) -> str | None:
    """What of its settings our convolution does not have."""
    if module.complex_data:
        return "complex data"
    if module.order > 3:
        return f"{module.order} axes, expected one to three"
    if module.fft_norm != "forward":
        return f"fft_norm {module.fft_norm!r}, expected 'forward'"
    if list(module.n_modes) != list(module.max_n_modes):
        return f"weights for {tuple(module.max_n_modes)} modes of which it uses {tuple(module.n_modes)}"
    return None


def _spherical_problem(module: Any) -> str | None:
    if len(set(module.sht_grids)) > 1:
        return f"different grids of the sphere in and out, {' and '.join(module.sht_grids)}"
    if module.sht_norm != "ortho":
        return f"sht_norm {module.sht_norm!r}, expected 'ortho'"
    return "separable weights, which on the sphere do not run in neuraloperator either" if module.separable else None
