"""`halfwave predict RUN IN OUT`: a trained operator applied to the fields, or to the point clouds, of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from tyro.conf import Positional

from halfwave.commands.common import ReadingOptions, log_console, results_console
from halfwave.commands.evaluate import check_fits
from halfwave.data import CloudWriter, FieldWriter, open_clouds, open_fields
from halfwave.display import progress_of
from halfwave.errors import UsageError
from halfwave.files import check_no_input
from halfwave.models import set_precision, unpack_points
from halfwave.precision import PRECISIONS, Policy
from halfwave.training import CloudEncoder, find_model_file, load

TRAINED = "trained"


@dataclass
class Predict(ReadingOptions):
    """Apply a trained operator to the fields or the point clouds of a file.

    In full precision, unless told otherwise.
    """

    run_path: Positional[Path]
    """Run directory, or a model file."""
    input: Positional[Path]
    """Any file of fields that train reads, of its test split where it has one; or .npy. Clouds: HDF5, meshes, cars."""
    output: Positional[Path]
    """.h5 (dataset y; of clouds pressure, points, offsets) or .npy."""
    precision: str = "full"
    """What it computes in: full, trained (what it was trained in), amp, half, mixed, stream, double."""
    batch_size: int = 8
    """Samples at a time."""

    def run(self) -> None:
        if self.precision not in (*PRECISIONS, TRAINED):
            accepted = ", ".join((*PRECISIONS, TRAINED))
            raise UsageError(f"unknown precision {self.precision!r}: expected one of {accepted}")
        if self.batch_size < 1:
            raise UsageError(f"--batch-size must be at least 1, got {self.batch_size}")
        file = find_model_file(self.run_path)
        check_no_input(self.output, self.input, file)
        model = load(file)
        if self.precision != TRAINED:
            set_precision(model, Policy.named(self.precision))
        encoder = getattr(model, "encoder", None)
        if encoder is not None:
            self._predict_clouds(model, encoder)
        else:
            self._predict_fields(model)

    def _predict_fields(self, model: nn.Module) -> None:
        fields = open_fields(self.input, self.read_options(model))
        log_console().print(fields.understood(), soft_wrap=True)
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

    def _predict_clouds(self, model: nn.Module, encoder: CloudEncoder) -> None:
        clouds = open_clouds(self.input)
        count = len(clouds)
        with (
            CloudWriter(self.output) as writer,
            progress_of("predicting", log_console()) as progress,
            torch.no_grad(),
        ):
            for start in range(0, count, self.batch_size):
                samples = [clouds[i] for i in range(start, min(start + self.batch_size, count))]
                batch = encoder.collate(samples)
                for sample, pressure in zip(samples, unpack_points(model(batch), batch.offsets), strict=True):
                    writer.append(sample.points, pressure[:, 0])
                progress(start + len(samples), count)
        results_console().print(f"{self.output}: {count} clouds", soft_wrap=True)
