"""ONNX: the program in operators of the standard alone, for ONNX Runtime and everything else that reads the format."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.export.check import Run
from halfwave.export.onnx_guard import guard_grid
from halfwave.export.onnx_lean import make_lean
from halfwave.export.onnx_narrow import narrow_weights
from halfwave.export.onnx_scaled import share_scaled
from halfwave.export.program import Program
from halfwave.export.source import Source
from halfwave.export.tracing import trace

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 20
MISSING = "ONNX files need the packages onnx, onnxscript and onnxruntime: pip install 'halfwave[export]'"


def write_onnx(program: Program, path: Path, source: Source) -> None:
    """The program as one file: input ``x``, output ``y``, free axes by name."""
    path.write_bytes(build_onnx(program).SerializeToString())


def run_onnx(path: Path) -> Run:
    """The file in ONNX Runtime on the CPU."""
    return session_run(path.read_bytes())


def session_run(model: bytes) -> Run:
    """A model in ONNX Runtime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(["y"], {"x": x.numpy()})[0])

    return run


def build_onnx(program: Program) -> ModelProto:
    """The program as an ONNX model."""
    _check_installed()
    with _quiet(), torch.no_grad():
        built = torch.onnx.export(
            trace(program.interpreted()),
            dynamo=True,
            verbose=False,
            optimize=False,  # `make_lean` does
            opset_version=OPSET,
            input_names=["x"],
            output_names=["y"],
        )
    assert built is not None
    make_lean(built.model)
    model: ModelProto = built.model_proto
    _strip(model)
    share_scaled(model)
    if program.stored is not None:
        narrow_weights(model)
    if program.shapes.free_grid:
        guard_grid(model, program.shapes.least)
    _describe(model, program)
    domains = {entry.domain for entry in model.opset_import} | {node.domain for node in model.graph.node}
    if domains - {""} or model.functions:
        raise InputError(f"the ONNX graph uses operators outside the standard: {', '.join(sorted(domains - {''}))}")
    return model


def _strip(model: ModelProto) -> None:
    """Without the exporter's notes, which hold stack traces with paths of this machine, and what readers infer."""
    del model.graph.value_info[:]
    for holder in (model, model.graph, *model.graph.node, *model.graph.initializer):
        del holder.metadata_props[:]
        holder.ClearField("doc_string")
    for node in model.graph.node:
        node.ClearField("name")


def _describe(model: ModelProto, program: Program) -> None:
    from halfwave import __version__

    bare: Any = program.reference.model
    notes = {
        "halfwave": __version__,
        "model": type(bare).__name__,
        "policy": str(program.policy),
        "input": str(program.shapes),
    }
    for key, value in notes.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's remarks on operators of libraries that are not installed."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
