"""The stabilizers that act in a model: part of the function that its weights were trained for, so kept with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from halfwave.models.base import NeuralOperator
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv


def settled_stabilizers(model: nn.Module) -> dict[str, str]:
    """The stabilizer of every spectral convolution that has computed, by its name in the model."""
    return {name: conv.stabilizer for name, conv in _convolutions(model).items() if conv.settled}


def settle_stabilizers(model: nn.Module, stabilizers: Mapping[str, str]) -> None:
    """Take over what `settled_stabilizers` gave; ValueError for a layer or a stabilizer that there is not."""
    convolutions = _convolutions(model)
    for name, stabilizer in stabilizers.items():
        if name not in convolutions:
            raise ValueError(f"{type(model).__name__} has no spectral convolution {name!r} to stabilize")
        convolutions[name].settle_on(stabilizer)


def settle_for(model: nn.Module, policies: Iterable[Policy]) -> None:
    """Before a training under several policies: a stabilizer that one of them brings with it acts under all of them.

    In layers that have not computed yet. A policy that names a stabilizer still has it.
    """
    phases = list(policies)
    for name, conv in _convolutions(model).items():
        if not conv.settled and conv.brings_stabilizer(policy.of(name) for policy in phases):
            conv.settle_on("tanh")


@contextmanager
def trial_run(model: nn.Module) -> Iterator[None]:
    """Within, the model computes to be looked at: what it chose by itself is as open afterwards as before."""
    holders = [m for m in model.modules() if isinstance(m, NeuralOperator | SpectralConv)]
    before = [m.settled for m in holders]
    try:
        yield
    finally:
        for module, settled in zip(holders, before, strict=True):
            module.settled = settled


def _convolutions(model: nn.Module) -> dict[str, SpectralConv]:
    return {name: module for name, module in model.named_modules() if isinstance(module, SpectralConv)}
