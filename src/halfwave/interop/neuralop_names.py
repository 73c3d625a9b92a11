"""Our parameters beside neuraloperator's names and shapes: loading, with an account of every name, and export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from halfwave.interop.neuralop_spectral import spectral_state
from halfwave.models import FNO, GINO, SFNO, ChannelMLP, FNOBlock, Skip

_GRAPH_KERNELS = ("gno_in", "gno_out")
_GRAPH_MLP = "integral_transform.channel_mlp.fcs"


@dataclass(frozen=True)
class Entry:
    """A real parameter of ours, and theirs that it is: its name and shape."""

    ours: Tensor
    name: str
    shape: tuple[int, ...]


def load_weights(model: FNO | SFNO | GINO, state: Mapping[str, Tensor]) -> None:
    """Copy their tensors into the model; ValueError that names the first one missing, unknown or of another shape."""
    entries = list(_entries(model))
    expected = {entry.name: entry.shape for entry in entries} | _spectral_shapes(model)
    for name in sorted(expected.keys() | state.keys()):
        if name not in expected:
            raise ValueError(f"the weights hold {name!r}, which halfwave's {type(model).__name__} has no place for")
        if name not in state or state[name].shape != expected[name]:
            given = f"{tuple(state[name].shape)} is given" if name in state else "it is missing"
            raise ValueError(f"the weights do not fit: {name!r} of shape {expected[name]} is expected, and {given}")
    with torch.no_grad():
        for entry in entries:
            entry.ours.copy_(state[entry.name].reshape(entry.ours.shape))
    for i, block in enumerate(fno_blocks(model)):
        block.conv.weight.load_complex_state(spectral_state(state, i))


def freeze(model: FNO | SFNO | GINO, frozen: frozenset[str]) -> None:
    """Keep from training what goes by one of these names of theirs."""
    for entry in _entries(model):
        entry.ours.requires_grad_(entry.name not in frozen)
    for i, block in enumerate(fno_blocks(model)):
        names = {f"{_weight(i)}.{part}" for part in block.conv.weight.complex_state()}
        block.conv.weight.requires_grad_(not names <= frozen)


def export_weights(model: FNO | SFNO | GINO) -> dict[str, Tensor]:
    """The weights under their names and in their shapes, spectral ones complex."""
    state = {entry.name: entry.ours.detach().reshape(entry.shape).clone() for entry in _entries(model)}
    for i, block in enumerate(fno_blocks(model)):
        parts = block.conv.weight.complex_state()
        state |= {f"{_weight(i)}.{part}": tensor.clone() for part, tensor in parts.items()}
    return state


def _spectral_shapes(model: FNO | SFNO | GINO) -> dict[str, tuple[int, ...]]:
    return {
        f"{_weight(i)}.{part}": tuple(tensor.shape)
        for i, block in enumerate(fno_blocks(model))
        for part, tensor in block.conv.weight.complex_state().items()
    }


def _weight(layer: int) -> str:
    return f"fno_blocks.convs.{layer}.weight"


def fno_blocks(model: FNO | SFNO | GINO) -> list[FNOBlock]:
    return [cast(FNOBlock, block) for block in model.blocks]


def _entries(model: FNO | SFNO | GINO) -> Iterator[Entry]:
    yield from _mlp(model.lifting, "lifting")
    yield from _mlp(model.projection, "projection")
    for i, block in enumerate(fno_blocks(model)):
        yield from _block(block, i, model.n_dim)
    if model.takes_points:
        for kernel in _GRAPH_KERNELS:
            yield from _same(getattr(model, kernel).fcs, f"{kernel}.{_GRAPH_MLP}")


def _block(block: FNOBlock, i: int, n_dim: int) -> Iterator[Entry]:
    ones = (1,) * n_dim
    if block.conv.bias is not None:
        yield Entry(block.conv.bias, f"fno_blocks.convs.{i}.bias", (len(block.conv.bias), *ones))
    yield from _skip(block.skip, f"fno_blocks.fno_skips.{i}", ones)
    if block.mlp is not None:
        yield from _mlp(block.mlp, f"fno_blocks.channel_mlp.{i}")
    yield from _skip(block.mlp_skip, f"fno_blocks.channel_mlp_skips.{i}", ones)
    for j, norm in enumerate(block.norms or ()):
        yield from _same(norm, f"fno_blocks.norm.{2 * i + j}")


def _skip(skip: Skip, prefix: str, ones: tuple[int, ...]) -> Iterator[Entry]:
    if skip.kind == "linear":
        yield Entry(skip.weight, f"{prefix}.conv.weight", (*skip.weight.shape, 1))
    elif skip.kind == "soft-gating":
        yield Entry(skip.weight, f"{prefix}.weight", (1, *skip.weight.shape, *ones))


def _mlp(mlp: ChannelMLP, prefix: str) -> Iterator[Entry]:
    """Their maps over channels are convolutions with a kernel of one point."""
    for name, parameter in mlp.fcs.named_parameters():
        shape = (*parameter.shape, 1) if parameter.ndim == 2 else tuple(parameter.shape)
        yield Entry(parameter, f"{prefix}.fcs.{name}", shape)


def _same(module: nn.Module, prefix: str) -> Iterator[Entry]:
    """Parameters that have the same names and shapes there."""
    for name, parameter in module.named_parameters():
        yield Entry(parameter, f"{prefix}.{name}", tuple(parameter.shape))
