"""`halfwave predict RUN IN OUT`: a trained operator applied to the fields of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from tyro.conf import Positional

from halfwave.commands.common import log_console, model_file, progress_of, results_console
from halfwave.commands.evaluate import check_fits
from halfwave.data.fields import FieldWriter, open_fields
from halfwave.errors import UsageError
from halfwave.training import load


@dataclass
class Predict:
    """Apply a trained operator to the fields of a file, on any grid."""

    run_path: Positional[Path]
    """Run directory, or a model file."""
    input: Positional[Path]
    """HDF5 with a dataset x, or test/x; or .npy; N x C x grid."""
    output: Positional[Path]
    """.h5 (dataset y) or .npy."""
    batch_size: int = 8
    """Samples at a time."""

    def run(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"--batch-size must be at least 1, got {self.batch_size}")
        model = load(model_file(self.run_path))
        fields = open_fields(self.input)
        check_fits(model, fields.shape[1], len(fields.shape) - 2, self.input)
        count = fields.shape[0]
        with (
            FieldWriter(self.output) as writer,
            progress_of("predicting", log_console()) as progress,
            torch.no_grad(),
        ):
            for start in range(0, count, self.batch_size):
                writer.append(model(fields[start : start + self.batch_size]))
                progress(min(start + self.batch_size, count), count)
        results_console().print(f"{self.output}: {count} fields", soft_wrap=True)
