"""export: a model or a run to a file that other programs read, checked against torch before it has its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from torch import Tensor, nn

from halfwave.errors import InputError
from halfwave.export.check import Difference, Run, compare
from halfwave.export.onnx_file import run_onnx, write_onnx
from halfwave.export.program import Program, Weights, build_program
from halfwave.export.pt2_file import run_aoti, run_pt2, write_aoti, write_pt2
from halfwave.export.source import read_source
from halfwave.files import written_aside
from halfwave.precision import Policy


@dataclass(frozen=True)
class Target:
    """A kind of file: how it is written, and how it is run to be checked."""

    suffix: str
    write: Callable[[Program, Path], None]
    run: Callable[[Path], Run]


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "onnx": Target(".onnx", write_onnx, run_onnx),
        "pt2": Target(".pt2", write_pt2, run_pt2),
        "aoti": Target(".aoti.pt2", write_aoti, run_aoti),
    }
)
"""Every kind of file by its name."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how far its answers are from torch's."""

    path: Path
    format: str
    bytes: int
    input: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.2f} MB"
        lines = [f"{self.path}: {self.format}, {size}, input {self.input}", "relative difference to torch:"]
        return "\n".join([*lines, *(f"  {difference}" for difference in self.differences)])


def export(
    model_or_run: nn.Module | str | Path,
    path: str | Path,
    *,
    grid: Sequence[int] | None = None,
    dynamic: Sequence[str] = ("batch",),
    weights: Weights = "fp32",
    policy: str | Policy | None = None,
    format: str | None = None,
    samples: Tensor | None = None,
) -> Exported:
    """Write a model as a program that needs no halfwave: fields in, fields out, normalizers included.

    Args:
        model_or_run: a model, an `Operator`, or a run directory or model file.
        path: where to; its ending says the format where `format` does not.
        grid: the grid that the program is for; by default that of the run's data.
        dynamic: what stays free when the program runs: ``"batch"``, ``"grid"``, both or none.
        weights: ``"fp16"`` stores them in half the bytes; products are taken in fp32 either way.
        policy: computes under another policy than the model's. Half formats are roundings inside fp32 here.
        format: ``"onnx"``, ``"pt2"`` (torch's graph) or ``"aoti"`` (compiled by torch for this kind of CPU).
        samples: real inputs to check with beside random ones; by default test samples of the run's data.

    The file is run and compared with torch before it gets its name: one that answers otherwise is not left behind
    (InputError). ValueError for what cannot be exported.
    """
    target_name = format or _format_of(Path(path))
    if target_name not in TARGETS:
        raise ValueError(f"unknown format {target_name!r}: expected one of {', '.join(TARGETS)}")
    source = read_source(model_or_run, grid, samples)
    program = build_program(source.model, source.grid, dynamic, weights, policy)
    target = TARGETS[target_name]
    with written_aside(path) as aside:
        target.write(program, aside)
        differences = compare(program, target.run(aside), source.samples_on(program.shapes))
    written = Path(path)
    return Exported(written, target_name, written.stat().st_size, str(program.shapes), tuple(differences))


def _format_of(path: Path) -> str:
    for name, target in sorted(TARGETS.items(), key=lambda item: -len(item[1].suffix)):
        if path.name.endswith(target.suffix):
            return name
    endings = ", ".join(target.suffix for target in TARGETS.values())
    raise InputError(f"{path}: the ending names no format; expected one of {endings}, or a format")
