"""`halfwave plan --auto RUN`: formats for every layer and stage of a trained model, chosen by a budget."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from halfwave.certificates import PrecisionPlan, auto_precision
from halfwave.commands.common import ReadingOptions, log_console, results_console
from halfwave.data import Dataset, open_any
from halfwave.errors import InputError, UsageError
from halfwave.models import Unrolled
from halfwave.planner import parse_bytes
from halfwave.training import AnyDataset, CloudSamples, Operator, find_model_file, load, open_data, read_config

_SAMPLES, _HELD_OUT = 4, 16


@dataclass(frozen=True)
class AutoPlan:
    """What was asked for: a run and its data, and one limit or none."""

    run_path: Path
    data: Path | None
    reading: ReadingOptions
    max_error: float | None
    max_bytes: str | None
    max_time: float | None
    out: Path | None
    json: bool

    def run(self) -> None:
        plan = self._make()
        if self.out is not None:
            plan.save(self.out)
            log_console().print(f"saved to {self.out}: halfwave train --policy {self.out}", soft_wrap=True)
        if self.json:
            print(json.dumps(plan.to_dict(), indent=2))
            return
        results_console().print(str(plan), soft_wrap=True)

    def _make(self) -> PrecisionPlan:
        model = load(find_model_file(self.run_path))
        if isinstance(getattr(model, "model", model), Unrolled):
            raise InputError(f"--auto plans models of one step: {self.run_path} was trained over steps in time")
        core, data = _planned_from(model, self._open(model))
        return auto_precision(
            core,
            data,
            max_error=self.max_error,
            max_bytes=None if self.max_bytes is None else parse_bytes(self.max_bytes),
            max_time=self.max_time,
            samples=_SAMPLES,
            held_out=_HELD_OUT,
        )

    def _open(self, model: nn.Module) -> AnyDataset:
        if self.data is not None:
            return open_any(self.data, self.reading.read_options(model))
        if not self.run_path.is_dir():
            raise UsageError("a model file does not know its data: give --data FILE")
        return open_data(read_config(self.run_path / "config.json").model_copy(update=self.reading.asked))


def _planned_from(model: nn.Module, dataset: AnyDataset) -> tuple[nn.Module, Dataset | list[Any]]:
    """The model and its data; of a model of point clouds what is inside, and what that is called with."""
    if isinstance(dataset, Dataset):
        return model, dataset
    if not isinstance(model, Operator) or model.encoder is None:
        raise InputError(f"{dataset.path} holds point clouds; the model takes fields on a grid")
    split = CloudSamples(dataset.test, model.encoder)
    rows = range(min(_SAMPLES + _HELD_OUT, len(split)))
    return model.model, [split[[row]][0].arguments() for row in rows]
