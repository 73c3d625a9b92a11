"""A program as torch.export's graph: what ONNX files, `.pt2` files and compiled programs are all made from."""

from __future__ import annotations

import warnings

import torch
from torch.export import Dim, ExportedProgram

from halfwave.export.program import Program


def trace(program: Program) -> ExportedProgram:
    """The graph of a prepared program, with its free sizes as symbols."""
    shapes = program.shapes
    least = {0: 1} | {axis + 2: n for axis, n in enumerate(shapes.least)}
    free = {axis: Dim(name, min=least[axis]) for axis, name in shapes.symbols.items()}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.export.export(
            program,
            (torch.zeros(shapes.example),),
            dynamic_shapes={"x": free or None},
            strict=False,
            # What cannot be proven of a free size is left to the program to assert.
            prefer_deferred_runtime_asserts_over_guards=shapes.free_grid,
        )
    for node in traced.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine, and most of a small file
    return traced
