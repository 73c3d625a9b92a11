"""One run of a model with its eyes open: what each FNO block got and gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.answers import Part, as_inputs, call
from halfwave.models import FNOBlock, NeuralOperator, set_precision, trial_run
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv


@dataclass
class Observation:
    """Tensors of one run, as they were computed.

    Attributes:
        output: the model's answer.
        inputs, outputs: of every observed module by its name: blocks, their convolutions, and the outer layers.
    """

    output: Any
    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)

    def sample(self, index: int) -> Observation:
        """Of one sample of a batch of fields alone."""
        at = slice(index, index + 1)
        inputs, outputs = ({name: t[at] for name, t in kept.items()} for kept in (self.inputs, self.outputs))
        return replace(self, output=self.output[at], inputs=inputs, outputs=outputs)


@dataclass(frozen=True)
class Versions:
    """A model under a policy, in float64 and in fp32, all with the stabilizers that act under the policy."""

    chosen: nn.Module
    exact: nn.Module
    full: nn.Module

    @classmethod
    def of(cls, model: nn.Module, x: Part, policy: Policy) -> Versions:
        """`x` is run once: a stabilizer is chosen when a layer computes."""
        chosen = run_as(model, policy)
        observe(chosen, x, [])
        stabilizers = {f"{name}.conv": conv_of(chosen, name).stabilizer for name in fno_blocks(chosen)}
        exact = run_as(model, Policy.uniform("fp64"), stabilizers)
        return cls(chosen, exact, run_as(model, Policy.named("full"), stabilizers).float())


def fno_blocks(model: nn.Module) -> dict[str, FNOBlock]:
    """The FNO blocks of a model in the order in which it holds them."""
    return {name: module for name, module in model.named_modules() if isinstance(module, FNOBlock)}


def conv_of(model: nn.Module, block: str) -> SpectralConv:
    """The spectral convolution of a block."""
    found = model.get_submodule(f"{block}.conv")
    assert isinstance(found, SpectralConv)
    return found


def core_of(model: nn.Module, x: Any) -> tuple[nn.Module, Any]:
    """The neural operator inside a wrapper (normalizers around a model) and what it gets from `x`.

    That is a tensor, or the keyword arguments of a model that takes points.
    """
    found = [module for module in model.modules() if isinstance(module, NeuralOperator)]
    if not found or found[0] is model:
        return model, as_inputs(x)
    seen: list[Part] = []

    def keep(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        seen.append(args[0].detach() if args else options)

    handle = found[0].register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with torch.no_grad(), trial_run(model):
            call(model, x)
    finally:
        handle.remove()
    return found[0], seen[0]


def run_as(model: nn.Module, policy: Policy, stabilizers: dict[str, str] | None = None) -> nn.Module:
    """A copy of the model under another policy, with the weights that it has; `stabilizers` by convolution."""
    copy = deepcopy(model).eval()
    set_precision(copy, policy)
    for name, stabilizer in (stabilizers or {}).items():
        copy.get_submodule(name).set_precision(policy.with_(stabilizer=stabilizer))  # type: ignore[operator]
    return copy


@torch.no_grad()
def observe(model: nn.Module, x: Part, names: Sequence[str] | None = None) -> Observation:
    """Run the model on `x` and keep what went in and out of the modules `names`; by default blocks and outer layers."""
    seen = Observation(x)
    if isinstance(x, Tensor):
        x = x.to(next(model.parameters()).dtype)
    watched = _default_names(model) if names is None else names
    # Eager: hooks inside a compiled graph would not fire.
    with _watched(model, seen, watched), trial_run(model), torch.compiler.set_stance("force_eager"):
        seen.output = call(model, x)
    return seen


def _default_names(model: nn.Module) -> list[str]:
    names = [name for block in fno_blocks(model) for name in (block, f"{block}.conv")]
    return names + [name for name in ("lifting", "projection") if hasattr(model, name)]


@contextmanager
def _watched(model: nn.Module, seen: Observation, names: Sequence[str]) -> Iterator[None]:
    def hook_of(name: str) -> object:
        def hook(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            seen.inputs[name], seen.outputs[name] = args[0].detach(), output.detach()

        return hook

    handles = [model.get_submodule(name).register_forward_hook(hook_of(name)) for name in names]  # type: ignore[arg-type]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
