"""A grid that is too small for a program stops it with one line, where it would answer nonsense.

ONNX has no assertion. A lookup of the last point that an axis must have fails where it has none, and a runtime prints
the name of the node that failed: that name is the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import ModelProto


def guard_grid(model: ModelProto, least: tuple[int, ...]) -> None:
    """Make the model look up point `least` - 1 of every grid axis of its input before it does anything else."""
    from onnx import helper

    graph = model.graph
    entry = graph.input[0].name
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name == entry:
                node.input[position] = "guarded"
    made = [helper.make_node("Shape", [entry], ["guard_shape"])]
    shifts = []
    for axis, fewest in enumerate(least):
        made += _lookup(graph, helper, axis + 2, fewest)
        shifts.append(f"guard_shift_{axis + 2}")
    made.append(helper.make_node("Sum", ["guard_none", *shifts], ["guard_total"]))
    made.append(helper.make_node("Add", [entry, "guard_total"], ["guarded"]))
    _constant(graph, helper, "guard_none", 0.0)
    body = list(graph.node)
    del graph.node[:]
    graph.node.extend([*made, *body])


def _lookup(graph: Any, helper: Any, axis: int, fewest: int) -> list[Any]:
    """Zero, by way of 0, 1, .. N-1 at `fewest` - 1."""
    from onnx import TensorProto

    size, points, point, number = (f"guard_{word}_{axis}" for word in ("size", "points", "point", "number"))
    _constant(graph, helper, f"guard_axis_{axis}", axis)
    _constant(graph, helper, f"guard_last_{axis}", fewest - 1)
    _constant(graph, helper, f"guard_start_{axis}", 0)
    _constant(graph, helper, f"guard_step_{axis}", 1)
    _constant(graph, helper, f"guard_zero_{axis}", 0.0)
    message = f"grid axis {axis - 1} needs at least {fewest} points, as many as the modes of the model"
    return [
        helper.make_node("Gather", ["guard_shape", f"guard_axis_{axis}"], [size]),
        helper.make_node("Range", [f"guard_start_{axis}", size, f"guard_step_{axis}"], [points]),
        helper.make_node("Gather", [points, f"guard_last_{axis}"], [point], name=message),
        helper.make_node("Cast", [point], [number], to=TensorProto.FLOAT),
        helper.make_node("Mul", [number, f"guard_zero_{axis}"], [f"guard_shift_{axis}"]),
    ]


def _constant(graph: Any, helper: Any, name: str, value: float) -> None:
    from onnx import TensorProto

    kind = TensorProto.FLOAT if isinstance(value, float) else TensorProto.INT64
    graph.initializer.append(helper.make_tensor(name, kind, [], [value]))
