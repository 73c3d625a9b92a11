"""`.pt2`: the program as torch's own file, as a graph (`pt2`) or compiled for this kind of CPU (`aoti`).

Both load in a process that knows torch alone. The graph runs wherever torch does; the compiled program is machine code.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from halfwave.errors import InputError
from halfwave.export.check import Run
from halfwave.export.program import Program
from halfwave.export.source import Source
from halfwave.export.tracing import trace
from halfwave.numerics import casts_as_written


def write_pt2(program: Program, path: Path, source: Source) -> None:
    """The graph, for `torch.export.load`."""
    with path.open("wb") as file:
        torch.export.save(trace(program), file)


def run_pt2(path: Path) -> Run:
    """The graph as torch loads it."""
    with path.open("rb") as file:
        module = torch.export.load(file).module()

    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = module(x)
        return answer

    return run


def write_aoti(program: Program, path: Path, source: Source) -> None:
    """Machine code, for `torch._inductor.aoti_load_package`; needs a C++ compiler here, not where it runs.

    Code and weights alone: line tables and C++ sources were a quarter of the file of 1.2 million fp32 weights, held
    paths of this machine, and are not halved by fp16 weights.
    """
    from torch._inductor.package import package_aoti

    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "program.pt2"
        package_aoti(str(package), [file for file in _compile(trace(program)) if not str(file).endswith(".cpp")])
        path.write_bytes(package.read_bytes())


def _compile(traced: ExportedProgram) -> list[Any]:
    """What the compiler made: machine code with the weights inside, and descriptions and sources beside it."""
    import torch._inductor
    from torch._inductor import config

    lean = {name: False for name in ("enable_line_tables",) if hasattr(config.aot_inductor, name)}  # not in torch 2.6
    options = {f"aot_inductor.{name}": value for name, value in {"package": True, **lean}.items()} | casts_as_written()
    try:
        files: Any = torch._inductor.aot_compile(traced.module(), *traced.example_inputs, options=options)
    except Exception as error:
        if "C++ compiler" not in str(error):
            raise
        raise InputError("a compiled program needs a C++ compiler here (g++ or clang): none was found") from error
    return list(files)


def run_aoti(path: Path) -> Run:
    """The compiled program as torch loads it."""
    import torch._inductor

    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "program.pt2"
        package.write_bytes(path.read_bytes())
        compiled: Any = torch._inductor.aoti_load_package(str(package))

    def run(x: Tensor) -> Tensor:
        answer: Tensor = compiled(x)
        return answer

    return run
