"""`halfwave bounds --run RUN`: the certificate of a trained run on its test split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from halfwave.certificates import Certificate, certify
from halfwave.commands.common import ReadingOptions
from halfwave.commands.evaluate import check_fits
from halfwave.data import PointDataset, open_any
from halfwave.errors import InputError, UsageError
from halfwave.precision import Policy
from halfwave.training import AnyDataset, CloudSamples, find_model_file, load, open_data, read_config


def certify_run(
    run: Path, data: Path | None, reading: ReadingOptions, policy: Policy, samples: int, alpha: float
) -> tuple[AnyDataset, Certificate]:
    """The data and the certificate: of `data`, or of the run's own file, read as in the run."""
    model = load(find_model_file(run))
    dataset = open_any(data, reading.read_options(model)) if data is not None else _own_data(run, reading)
    x, targets = _samples(model, dataset, samples)
    return dataset, certify(model, x, policy, alpha=alpha, targets=targets)


def _own_data(run: Path, reading: ReadingOptions) -> AnyDataset:
    if not run.is_dir():
        raise UsageError("a model file does not know its data: give --data FILE")
    return open_data(read_config(run / "config.json").model_copy(update=reading.asked))


def _samples(model: nn.Module, dataset: AnyDataset, samples: int) -> tuple[Any, Any]:
    """Inputs and true answers of the first test samples."""
    encoder = getattr(model, "encoder", None)
    if isinstance(dataset, PointDataset):
        if encoder is None:
            raise InputError(f"{dataset.path} holds point clouds; the model takes fields on a grid")
        return CloudSamples(dataset.test, encoder)[: min(samples, len(dataset.test))]
    if encoder is not None:
        raise InputError(f"{dataset.path} holds fields on a grid; the model takes point clouds")
    check_fits(model, dataset.in_channels, len(dataset.test.grid), dataset.path)
    return dataset.test[:samples]
