"""The blocks of a model, and activation recomputation: each block keeps its input only and runs again in backward."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from halfwave.errors import InputError


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The modules of the model's lists of modules: what it runs one after the other."""
    return [block for child in model.children() if isinstance(child, nn.ModuleList) for block in child]


def recompute_blocks(model: nn.Module) -> None:
    """Make every block of the model recompute; names and weights stay as they are."""
    blocks = blocks_of(model)
    if not blocks:
        raise InputError(f"recompute: {type(model).__name__} has no list of blocks to recompute")
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
