"""`halfwave evaluate RUN`: errors of a trained operator on any file, at any resolution."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from tyro.conf import Positional

from halfwave.commands.common import model_file, results_console
from halfwave.data import open_dataset
from halfwave.errors import InputError, UsageError
from halfwave.models import set_precision
from halfwave.precision import NAMES, Policy
from halfwave.training import evaluate, load
from halfwave.training.config import read_config


@dataclass
class Evaluate:
    """Relative L2 and H1 errors of a trained operator on a test split."""

    run_path: Positional[Path]
    """Run directory, or a model file."""
    data: Path | None = None
    """Dataset file, of any resolution; by default the one of the run."""
    resolution: int | None = None
    """Points a side: a coarser grid than the file's."""
    precision: str | None = None
    """Evaluate under another policy: full, amp, half, mixed."""
    batch_size: int = 8
    """Samples at a time."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> None:
        if self.precision is not None and self.precision not in NAMES:
            raise UsageError(f"unknown precision {self.precision!r}: expected one of {', '.join(NAMES)}")
        if self.batch_size < 1:
            raise UsageError(f"--batch-size must be at least 1, got {self.batch_size}")
        model = load(model_file(self.run_path))
        if self.precision is not None:
            set_precision(model, Policy.named(self.precision))
        dataset = open_dataset(self.data or self._own_data())
        check_fits(model, dataset.in_channels, len(dataset.grid), dataset.path)
        found = evaluate(model, dataset.test, dataset.metadata, batch_size=self.batch_size, resolution=self.resolution)
        grid = "x".join(map(str, dataset.grid if self.resolution is None else [self.resolution] * len(dataset.grid)))
        self._print({"data": str(dataset.path), "grid": grid, "samples": dataset.n_test, **found})

    def _own_data(self) -> Path:
        if not self.run_path.is_dir():
            raise UsageError("a model file does not know its data: give --data FILE")
        return Path(read_config(self.run_path / "config.json").data)

    def _print(self, values: dict[str, object]) -> None:
        if self.json:
            print(json.dumps(values))
            return
        table = Table("grid", "samples", "L2", "H1", title=str(values["data"]))
        table.add_row(str(values["grid"]), str(values["samples"]), f"{values['l2']:.5f}", f"{values['h1']:.5f}")
        results_console().print(table)


def check_fits(model: object, channels: int, axes: int, path: Path) -> None:
    """InputError when a file's channels or axes are not those of the model."""
    bare = getattr(model, "model", model)
    expected = (getattr(bare, "in_channels", channels), getattr(bare, "n_dim", axes))
    if (channels, axes) != expected:
        raise InputError(
            f"{path} has {channels} channels on {axes} grid axes; the model takes {expected[0]} on {expected[1]}"
        )
