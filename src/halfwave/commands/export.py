"""`halfwave export RUN`: a trained operator as a program that needs no halfwave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from halfwave.commands.common import as_usage, results_console
from halfwave.errors import UsageError
from halfwave.export import TARGETS, WEIGHTS, Weights, export
from halfwave.precision import PRECISIONS
from halfwave.training import find_model_file


@dataclass
class Export:
    """A trained operator as ONNX, torch's program or a page, checked against torch."""

    run_path: Positional[Path]
    """Run directory, or a model file."""
    format: str = "onnx"
    """onnx; pt2 (torch's graph, loads without halfwave); aoti (compiled by torch for this kind of CPU); html (a
    page that runs the operator in a browser)."""
    out: Path | None = None
    """File to write; by default model.onnx (or .pt2, .html) beside the model."""
    grid: tuple[int, ...] | None = None
    """Points of each axis that the program is for; by default those of the run's data."""
    dynamic: tuple[str, ...] = ("batch",)
    """What stays free when the program runs: batch, grid, both or (none) nothing."""
    weights: str = "fp32"
    """fp16 stores the weights in half the bytes; products are taken in fp32 either way."""
    policy: str | None = None
    """Compute under another policy: full, amp, half, mixed, double; by default the model's own."""

    @classmethod
    def known(cls, call: Export | None) -> dict[str, Any]:
        """Where the program goes."""
        if call is None or call.format not in TARGETS:
            return {}
        return {"out": find_model_file(call.run_path).with_name(f"model{TARGETS[call.format].suffix}")}

    def run(self) -> None:
        if self.format not in TARGETS:
            raise UsageError(f"unknown --format {self.format!r}: expected one of {', '.join(TARGETS)}")
        if self.policy is not None and self.policy not in PRECISIONS:
            raise UsageError(f"unknown --policy {self.policy!r}: expected one of {', '.join(PRECISIONS)}")
        file = find_model_file(self.run_path)
        out = self.out or file.with_name(f"model{TARGETS[self.format].suffix}")
        dynamic = () if self.dynamic == ("none",) else self.dynamic
        written = as_usage(
            lambda: export(
                self.run_path,
                out,
                grid=self.grid,
                dynamic=dynamic,
                weights=_weights(self.weights),
                policy=self.policy,
                format=self.format,
            )
        )
        results_console().print(str(written), soft_wrap=True)


def _weights(name: str) -> Weights:
    if name not in WEIGHTS:
        raise UsageError(f"unknown --weights {name!r}: expected one of {', '.join(WEIGHTS)}")
    return "fp16" if name == "fp16" else "fp32"
