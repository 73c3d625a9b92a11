"""Incremental modes: the frequencies that all blocks of a model keep, changed while it trains."""

from __future__ import annotations

from typing import Any

from torch import nn

from halfwave.models.block import FNOBlock


def modes_of(blocks: nn.ModuleList) -> tuple[int, ...]:
    """The modes that the blocks keep."""
    return _block(blocks[0]).conv.n_modes


def set_modes(blocks: nn.ModuleList, n_modes: int | tuple[int, ...]) -> dict[str, Any]:
    """Keep other modes in every block, of those that have weights; the arguments that build a model like that."""
    for block in blocks:
        _block(block).conv.n_modes = n_modes
    transform = _block(blocks[0]).conv.transform
    return {"n_modes": list(transform.n_modes), "max_n_modes": list(transform.max_n_modes or transform.n_modes)}


def _block(module: nn.Module) -> FNOBlock:
    assert isinstance(module, FNOBlock)
    return module
