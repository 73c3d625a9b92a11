"""`.pt2`: the program as torch's own file, as a graph (`pt2`) or compiled for this kind of CPU (`aoti`).

Both load in a process that knows torch alone. The graph runs wherever torch does; the compiled program is machine code.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.export.check import Run
from halfwave.export.program import Program
from halfwave.export.tracing import trace


def write_pt2(program: Program, path: Path) -> None:
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


def write_aoti(program: Program, path: Path) -> None:
    """Machine code, for `torch._inductor.aoti_load_package`; needs a C++ compiler here, not where it runs."""
    import torch._inductor

    with tempfile.TemporaryDirectory() as folder:
        package = str(Path(folder) / "program.pt2")
        try:
            torch._inductor.aoti_compile_and_package(trace(program), package_path=package)
        except Exception as error:
            if "C++ compiler" not in str(error):
                raise
            raise InputError("a compiled program needs a C++ compiler here (g++ or clang): none was found") from error
        path.write_bytes(Path(package).read_bytes())


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
