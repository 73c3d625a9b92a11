"""Times of a model's layers in each format, measured here on one sample, and shared out over their stages.

A layer's time is that of its forward pass with all of its stages in the format, of which the stages of a convolution
(forward transform, contraction with its weights, inverse transform) take equal parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.observing import run_as
from halfwave.certificates.samples import Sample, call
from halfwave.certificates.stored_bytes import Stage
from halfwave.measure import now
from halfwave.models import trial_run
from halfwave.precision import Policy

_RUNS = 5


@torch.no_grad()
def time_stages(
    model: nn.Module, sample: Sample, stages: Sequence[Stage], formats: Sequence[str]
) -> dict[Stage, dict[str, float]]:
    """Seconds of each stage in each format; weights count with their contraction and cost nothing by themselves."""
    layers = list(dict.fromkeys(layer for layer, _ in stages))
    seconds = {name: _layer_seconds(run_as(model, Policy.uniform(name)), sample, layers) for name in formats}
    return {
        (layer, role): {name: seconds[name][layer] * _share(layer, role, stages) for name in formats}
        for layer, role in stages
    }


def _share(layer: str, role: str, stages: Sequence[Stage]) -> float:
    sharing = [r for name, r in stages if name == layer and r != "weights"]
    return 0.0 if role == "weights" else 1 / len(sharing)


def _layer_seconds(model: nn.Module, sample: Sample, layers: Sequence[str]) -> dict[str, float]:
    """The least of some runs, of each layer without those inside it."""
    runs = []
    with trial_run(model), torch.compiler.set_stance("force_eager"):
        for _ in range(_RUNS + 1):
            with _clocked(model, layers) as found:
                call(model, sample, Tensor.float)
            runs.append(dict(found))
    return {layer: min(run.get(layer, 0.0) for run in runs[1:]) for layer in layers}


@contextmanager
def _clocked(model: nn.Module, layers: Sequence[str]) -> Iterator[dict[str, float]]:
    """Within, forward passes add up in what is yielded; time inside another of the layers is that one's."""
    found: dict[str, float] = dict.fromkeys(layers, 0.0)
    open_at: list[list[float]] = []

    def before(_: nn.Module, __: Any) -> None:
        open_at.append([now(), 0.0])

    def after(layer: str) -> Any:
        def hook(_: nn.Module, __: Any, ___: Any) -> None:
            start, inside = open_at.pop()
            taken = now() - start
            found[layer] += taken - inside
            if open_at:
                open_at[-1][1] += taken

        return hook

    handles = []
    for layer in layers:
        module = model.get_submodule(layer)
        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after(layer))]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
