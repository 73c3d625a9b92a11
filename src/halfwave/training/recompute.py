"""Activation recomputation: each block keeps its input only and runs again in the backward pass."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from halfwave.errors import InputError


def recompute_blocks(model: nn.Module) -> None:
    """Make every block of the model's lists of blocks recompute; names and weights stay as they are."""
    blocks = [block for child in model.children() if isinstance(child, nn.ModuleList) for block in child]
    if not blocks:
        raise InputError(f"recompute: {type(model).__name__} has no list of blocks to recompute")
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
