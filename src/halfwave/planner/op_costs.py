"""Operators of a step with what each costs: operations, bytes, and arguments from which it can be run again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from halfwave.measure import product_flops
from halfwave.planner.module_path import Place


@dataclass(frozen=True)
class TensorSpec:
    """A tensor without its numbers."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that an operator reads or writes: an expanded axis is one entry."""
        entries = math.prod(n for n, step in zip(self.shape, self.stride, strict=True) if step or n == 0)
        return entries * self.dtype.itemsize


@dataclass(frozen=True)
class OperatorCall:
    """One call: of an aten operator with arguments of these shapes.

    Attributes:
        name: such as ``"aten.bmm"``.
        flops: multiplications and additions of products, convolutions and FFTs; 0 for the others, whose cost is bytes.
        nbytes: read and written; 0 for views.
        dtype: of the first floating-point argument.
    """

    name: str
    flops: int
    nbytes: int
    dtype: torch.dtype
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def is_view(self) -> bool:
        return self.nbytes == 0


class OpCosts(TorchDispatchMode):
    """Counts the operators of a step by the place at which they are called."""

    def __init__(self, place: Callable[[], Place]) -> None:
        super().__init__()
        self._place = place
        self._operators: dict[Any, OperatorCall] = {}
        self._counts: dict[tuple[Place, Any], int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        arguments, options = tree_map(_spec, (args, kwargs))
        key = (func, repr(arguments), repr(options))
        if key not in self._operators:
            self._operators[key] = _operator(func, args, kwargs, result, arguments, options)
        at = (self._place(), key)
        self._counts[at] = self._counts.get(at, 0) + 1
        return result

    def calls(self) -> Iterator[tuple[Place, OperatorCall, int]]:
        """Place, operator and how often it was called there."""
        for (place, key), count in self._counts.items():
            yield place, self._operators[key], count


def _spec(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return TensorSpec(tuple(value.shape), tuple(value.stride()), value.dtype)


def _operator(func: Any, args: Any, kwargs: Any, result: Any, arguments: Any, options: Any) -> OperatorCall:
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    results = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
    read = {t.untyped_storage()._cdata for t in tensors}
    mutates = func._schema.is_mutable
    view = not mutates and bool(results) and all(t.untyped_storage()._cdata in read for t in results)
    specs = [_spec(t) for t in (*tensors, *(t for t in results if mutates or t.untyped_storage()._cdata not in read))]
    floating = [t.dtype for t in tensors if t.is_floating_point()]
    return OperatorCall(
        name=str(func._schema.name).replace("::", "."),
        flops=product_flops(func, args, kwargs, result),
        nbytes=0 if view or _writes_nothing(func) else sum(spec.nbytes for spec in specs),
        dtype=floating[0] if floating else torch.float32,
        function=func,
        arguments=arguments,
        options=options,
    )


def _writes_nothing(func: Any) -> bool:
    return func._schema.name in ("aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided")
