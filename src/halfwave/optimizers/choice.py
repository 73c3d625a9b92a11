"""The optimizers of a run by their names in a config."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from halfwave.optimizers.adamw import AdamW

_STATES = {"adamw_pair": "fp32", "adamw_pair_bf16": "bf16", "adamw_pair_8bit": "8bit"}
_AS_LONG = 2**0.5
"""Two real numbers that both move by the rate move sqrt(2) times it, one complex number only the rate itself."""
OPTIMIZERS = ("adamw", *_STATES)
"""torch's AdamW; ours with one second moment per complex number; the same with its state in bf16, and in 8 bits."""


def build_optimizer(name: str, model: nn.Module, lr: float, weight_decay: float) -> Optimizer:
    """The optimizer called `name` of the model's trainable parameters, in the form with the fewest passes over memory.

    torch's is fused: every parameter is a real tensor, so that applies on cpu and cuda. Ours moves complex numbers
    sqrt(2) times further than neuraloperator's does, so that a rate means steps of one length under every name.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {name!r}: expected one of {', '.join(OPTIMIZERS)}")
    if name in _STATES:
        return AdamW(model, lr=lr, weight_decay=weight_decay, pair_scale=_AS_LONG, state=_STATES[name])
    parameters = [p for p in model.parameters() if p.requires_grad]
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=weight_decay, fused=fused)
