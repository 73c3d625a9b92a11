"""Matrices of an ONNX file that are others of it, scaled: stored as the scales alone.

A transform back has the matrix of the transform there, transposed perhaps, with a factor for each mode or point (how
often a mode counts, the weights of a quadrature). B = A s or B = A^T s, s for each row or each column: one of the two
in the file is enough, and runtimes multiply when they load it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto

# Fewer are not worth two operators; more are weights, which are not each other's, and every pair would be compared.
_LEAST_ELEMENTS, _MOST_ELEMENTS = 512, 1 << 20
# Of the largest entry of a row or column: A, s and their product are rounded to fp32 once each.
_CLOSE = 2.0**-22


class Scaled(NamedTuple):
    """B = A s, A by its name: s is (n,) or (n, 1), A the last two axes exchanged where `turned`."""

    name: str
    turned: bool
    scales: NDArray[np.float32]


def share_scaled(model: ModelProto) -> None:
    """Replace every matrix that is an earlier one scaled."""
    from onnx import TensorProto, numpy_helper

    kept: dict[str, NDArray[np.float32]] = {}
    nodes: list[Any] = []
    for tensor in [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) > 1]:
        values = numpy_helper.to_array(tensor)
        if not _LEAST_ELEMENTS <= values.size <= _MOST_ELEMENTS:
            continue
        found = next(_ways(values, kept), None)
        if found is None:
            kept[tensor.name] = values
        else:
            nodes += _multiplied(tensor, found)
    for node in reversed(nodes):
        model.graph.node.insert(0, node)


def _ways(values: NDArray[np.float32], kept: dict[str, NDArray[np.float32]]) -> Iterator[Scaled]:
    """All ways to have the matrix of one that is kept."""
    for name, other in kept.items():
        for turned in (False, True):
            given = other.swapaxes(-1, -2) if turned else other
            if given.shape != values.shape:
                continue
            if (scales := column_scales(given, values)) is not None:
                yield Scaled(name, turned, scales)
            elif (scales := column_scales(given.swapaxes(-1, -2), values.swapaxes(-1, -2))) is not None:
                yield Scaled(name, turned, scales[:, None])


def column_scales(given: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """s with wanted = given s along the last axis, to fp32's rounding; None where there is none."""
    columns = given.reshape(-1, given.shape[-1])
    targets = wanted.reshape(columns.shape)
    largest = np.abs(columns).argmax(0)[None]
    divisor = np.take_along_axis(columns, largest, 0)[0]
    scales = np.take_along_axis(targets, largest, 0)[0] / np.where(divisor == 0, 1, divisor)
    off = np.abs(columns * scales - targets).max(0)
    return scales if bool((off <= _CLOSE * np.abs(targets).max(0)).all()) else None


def _multiplied(tensor: Any, found: Scaled) -> list[Any]:
    """The operators that make the matrix; what is stored in its place are the scales."""
    from onnx import helper, numpy_helper

    name, axes = tensor.name, list(range(len(tensor.dims)))
    tensor.CopyFrom(numpy_helper.from_array(found.scales, f"{name}_scales"))
    made = helper.make_node("Mul", [f"{name}_turned" if found.turned else found.name, f"{name}_scales"], [name])
    if not found.turned:
        return [made]
    axes[-2:] = axes[:-3:-1]
    return [helper.make_node("Transpose", [found.name], [f"{name}_turned"], perm=axes), made]
