"""Weights of an ONNX file in fp16, where that loses nothing: half the bytes, widened again when a runtime loads it.

A program with `weights="fp16"` holds weights that are a power of two times an fp16 number. Whatever the exporter made
of them on the way (transposed, cut, widened), a tensor of such numbers is stored as h in fp16 with w = 2^e h.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from halfwave.export.half_storage import scale_of

if TYPE_CHECKING:
    from onnx import ModelProto

# Smaller tensors are not worth two operators.
_LEAST_ELEMENTS = 64


def narrow_weights(model: ModelProto) -> None:
    """Store every tensor that fp16 holds up to a power of two in fp16."""
    from onnx import TensorProto, helper

    graph = model.graph
    for tensor in [t for t in graph.initializer if t.data_type == TensorProto.FLOAT]:
        nodes = _narrowed(tensor, helper, graph)
        for node in reversed(nodes):
            graph.node.insert(0, node)


def _narrowed(tensor: Any, helper: Any, graph: Any) -> list[Any]:
    """The operators that widen the tensor, stored in its place as fp16; none where fp16 does not hold it."""
    from onnx import TensorProto, numpy_helper

    values = torch.from_numpy(numpy_helper.to_array(tensor).copy())
    scale = scale_of(values)
    half = (values / scale).half()
    if values.numel() < _LEAST_ELEMENTS or not torch.equal(half.float() * scale, values):
        return []
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(half.numpy(), f"{name}_half"))
    power = _power_of_two(scale, helper, graph)
    return [
        helper.make_node("Cast", [f"{name}_half"], [f"{name}_wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}_wide", power], [name]),
    ]


def _power_of_two(scale: float, helper: Any, graph: Any) -> str:
    """The name of a scale in the graph, stored once: the weights of a model have few different ones."""
    from onnx import TensorProto

    name = f"two_to_{round(math.log2(scale))}"
    if all(tensor.name != name for tensor in graph.initializer):
        graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [], [scale]))
    return name
