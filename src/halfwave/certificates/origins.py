"""Origins: the taps that a value comes from by moves alone, read from autograd's graph.

A value that was rounded once is in its format already: moved, cut, joined or scaled by powers of two, it is not rounded
again. Taps mark their node of the graph, and a later tap follows the graph upwards to them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MARK = "halfwave_tap"


def mark(tapped: Tensor, number: int, partial: bool) -> None:
    """Note on the node that made a tensor that it is a tap; a partial one watches some of its numbers alone."""
    node: Any = tapped.grad_fn
    node.metadata[_MARK] = (number, partial)


# Nodes of autograd that move, cut or repeat numbers, and change no digit of them.
_MOVES = frozenset(
    (
        *("View", "UnsafeView", "ReshapeAlias", "Permute", "Transpose", "T", "Movedim", "Clone", "ToCopy", "Alias"),
        *("AsStrided", "Slice", "Select", "Expand", "Unsqueeze", "Squeeze", "Split", "SplitWithSizes", "Unbind"),
        *("Narrow", "Index", "IndexSelect", "Gather", "Flip", "Repeat", "ConstantPadNd", "ReplicationPad2D"),
        *("ReplicationPad3D", "MaxPool2DWithIndices", "Neg", "ViewAsReal", "ViewAsComplex", "_AddAt", "IndexCopy"),
    )
)
_JOINS = frozenset(("Cat", "Stack"))


def origins(node: Any) -> tuple[int, ...]:
    """The taps that a value comes from by moves alone; empty where something was computed on the way."""
    found = _trace(node)
    return () if found is None else tuple(sorted(found))


def _trace(node: Any) -> set[int] | None:
    if node is None:
        return None
    number, partial = node.metadata.get(_MARK, (None, False))
    if number is not None and not partial:
        return {number}
    name = node.name().removesuffix("0").removesuffix("Backward")
    above = [n for n, _ in node.next_functions]
    if name in _JOINS:
        parts = [_trace(n) for n in above]
        return None if any(p is None for p in parts) else set().union(*(p for p in parts if p is not None))
    if name in _MOVES or (name == "Mul" and _by_powers_of_two(node)):
        return _trace(next((n for n in above if n is not None), None))
    return None


def _by_powers_of_two(node: Any) -> bool:
    """Whether a product is with constants that are powers of two."""
    factor = node._saved_other if node.next_functions[1][0] is None else None
    return factor is not None and bool((torch.frexp(factor).mantissa.abs() == 0.5).all())
