"""The exporter's graph made lean: what is constant is computed now, and equal constants are stored once.

With one exception: a constant made of two weights (a factor times the weights of its ranks, say) has the digits of
both, and would be stored in fp32 where each of them fits fp16. Runtimes compute it when they load the file.
"""

from __future__ import annotations

from typing import Any

from halfwave.export.half_storage import STORED

# Fewer are folded all the same: the operator would take as many bytes.
_LEAST_ELEMENTS = 256
# Constants are compared by copies of their bytes, and none that a program repeats is larger.
_MOST_ELEMENTS = 1 << 22


def make_lean(model: Any) -> None:
    """Fold and share in a graph of onnx_ir, in place."""
    from onnx_ir.passes.common import DeduplicateInitializersPass
    from onnxscript.optimizer import optimize_ir

    optimize_ir(model, should_fold=_Weights().may_be_folded)
    DeduplicateInitializersPass(size_limit=_MOST_ELEMENTS)(model)


class _Weights:
    """Which stored weights each constant is made of."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}

    def may_be_folded(self, node: Any) -> bool | None:
        """False for what would combine two weights; None leaves it to the optimizer."""
        given = [value for value in node.inputs if value is not None]
        weights = frozenset().union(*(self._made_of(value.name) for value in given))
        for value in node.outputs:
            self._of[value.name] = weights
        large = any(value.const_value is not None and value.const_value.size >= _LEAST_ELEMENTS for value in given)
        return False if len(weights) > 1 and large else None

    def _made_of(self, name: str) -> frozenset[str]:
        if name.startswith(STORED):
            return frozenset((name,))
        return self._of.get(name, frozenset())
