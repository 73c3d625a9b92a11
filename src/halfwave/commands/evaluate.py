"""`halfwave evaluate RUN`: errors of a trained operator on any file, at any resolution, as trained and in full."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from torch import nn
from tyro.conf import Positional

from halfwave.commands.common import ReadingOptions, log_console, results_console
from halfwave.commands.rollout import open_trajectories, remarks, rolled_out, rollout_table
from halfwave.data import PointDataset, open_any
from halfwave.domains import domain_from_dict, name_of
from halfwave.errors import InputError, UsageError
from halfwave.measure import keep_freed_blocks
from halfwave.models import computing_in, set_precision, stepping_model
from halfwave.precision import PRECISIONS, Policy
from halfwave.tables import build_table
from halfwave.training import (
    AnyDataset,
    CloudSamples,
    Samples,
    evaluate,
    find_model_file,
    load,
    open_data,
    read_config,
    read_extra,
)


@dataclass
class Evaluate(ReadingOptions):
    """Relative L2 and H1 errors of a trained operator, as trained and in full.

    Of point clouds L2 alone.
    """

    run_path: Positional[Path]
    """Run directory, or a model file."""
    data: Path | None = None
    """Dataset file or directory, of any resolution; by default the run's own, read as in the run."""
    subsample: int | None = None
    """Keep every n-th point of each axis, or of a point cloud; by default the run's."""
    resolution: int | None = None
    """Points a side: a coarser grid than the file's; by default the file's."""
    precision: str | None = None
    """Evaluate under one policy alone: full, amp, half, mixed, stream, double; by default the trained one, and full."""
    rollout: int | None = None
    """Of a model that steps in time: roll out so many steps and give the error over time (`halfwave rollout`)."""
    batch_size: int = 8
    """Samples at a time."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> None:
        if self.precision is not None and self.precision not in PRECISIONS:
            raise UsageError(f"unknown precision {self.precision!r}: expected one of {', '.join(PRECISIONS)}")
        if self.batch_size < 1:
            raise UsageError(f"--batch-size must be at least 1, got {self.batch_size}")
        keep_freed_blocks()
        model = load(find_model_file(self.run_path))
        if self.precision is not None:
            set_precision(model, Policy.named(self.precision))
        if self.rollout is not None:
            self._roll_out(model, self.rollout)
            return
        dataset = self._open(model)
        if not self.json:
            log_console().print(dataset.understood(), soft_wrap=True)
        split, grid = self._split(model, dataset)
        policy = _policy_of(model)
        errors = self._errors(model, split)
        with computing_in(model, "full") if self.precision is None and not policy.is_wide else nullcontext():
            in_full = self._errors(model, split) if self.precision is None else {}
        known = {"data": str(dataset.path), "grid": grid, "samples": dataset.n_test, "precision": policy.name}
        beside = {f"{name}_full": in_full[name] for name in ("l2", "h1") if in_full}
        self._print({**known, **errors, **beside, "domain": dataset.placement.to_dict()})
        if not self.json:
            self._remark(dataset, int(errors["zero_targets"] or 0))

    def _errors(self, model: nn.Module, split: Samples) -> dict[str, float | None]:
        """H1 is not defined everywhere."""
        found = evaluate(model, split, batch_size=self.batch_size, resolution=self.resolution)
        return {"l2": None, "h1": None, "zero_targets": 0, **found}

    def _roll_out(self, model: nn.Module, steps: int) -> None:
        if self.subsample is not None or self.resolution is not None:
            raise UsageError("--rollout is on the grid of the data: leave --subsample and --resolution out")
        source, window, dataset = open_trajectories(model, self.run_path, self.data, self)
        result = rolled_out(model, source, window, dataset, steps, self.batch_size)
        if self.json:
            print(json.dumps({"data": str(dataset.path), "samples": source.count, **result.to_dict()}))
            return
        log_console().print(dataset.understood(), soft_wrap=True)
        console = results_console()
        console.print(rollout_table(result, str(dataset.path)))
        for line in remarks(result, None):
            console.print(line, soft_wrap=True)

    def _open(self, model: nn.Module) -> AnyDataset:
        """The file given, or the run's own data, read as in the run unless another grid is asked for."""
        if self.subsample is not None and self.subsample < 1:
            raise UsageError(f"--subsample must be at least 1, got {self.subsample}")
        if self.data is not None:
            return self._open_file(self.data, model)
        if not self.run_path.is_dir():
            raise UsageError("a model file does not know its data: give --data FILE")
        config = read_config(self.run_path / "config.json")
        config = config.model_copy(update=self.asked)
        if config.is_live or (self.subsample is None and self.resolution is None):
            if self.subsample is not None:
                raise UsageError("--subsample is for files: this run has live data, give --data FILE")
            return open_data(config)
        return open_data(config.model_copy(update={"subsample": self.subsample or 1, "resolution": None}))

    def _open_file(self, data: Path, model: nn.Module) -> AnyDataset:
        """Another file than the run's; where it declares no domain, that of the run's own data serves."""
        options = self.read_options(model, stride=self.subsample or 1)
        dataset = open_any(data, options)
        known = read_extra(find_model_file(self.run_path)).get("data", {}).get("domain")
        if known is None or dataset.placement.origin != "default":
            return dataset
        domain = domain_from_dict({name: value for name, value in known.items() if name != "origin"})
        fits = len(domain.axes) == len(dataset.domain.axes)
        return open_any(data, replace(options, domain=name_of(domain))) if fits else dataset

    def _split(self, model: nn.Module, dataset: AnyDataset) -> tuple[Samples, str]:
        """The test split as the model takes it, and the grid in words."""
        encoder = getattr(model, "encoder", None)
        if not isinstance(dataset, PointDataset):
            if encoder is not None:
                raise InputError(f"{dataset.path} holds fields on a grid; the model takes point clouds")
            check_fits(model, dataset.in_channels, len(dataset.grid), dataset.path)
            finest = dataset.test.grid
            grid = finest if self.resolution is None else [self.resolution * n // finest[0] for n in finest]
            return dataset.test, "x".join(map(str, grid))
        if encoder is None:
            raise InputError(f"{dataset.path} holds point clouds; the model takes fields on a grid")
        if self.resolution is not None:
            raise UsageError("--resolution is for fields on a grid: point clouds have none, give --subsample")
        return CloudSamples(dataset.test, encoder), f"latent {'x'.join([str(encoder.resolution)] * 3)}"

    def _remark(self, dataset: AnyDataset, zeros: int) -> None:
        """What a reader of the figures must know: on which domain they are, and of how many samples."""
        console = results_console()
        if dataset.placement.origin == "default":
            console.print(f"domain: {dataset.domain}, as {dataset.path.name} declares none (--domain)", soft_wrap=True)
        if zeros:
            console.print(f"{zeros} of {dataset.n_test} targets are zero: left out of the mean errors", soft_wrap=True)

    def _print(self, values: dict[str, object]) -> None:
        if self.json:
            print(json.dumps(values))
            return
        rows = [self._row(values, str(values["precision"]), "")]
        if "l2_full" in values and values["precision"] not in ("full", "double"):
            rows.append(self._row(values, "full", "_full"))
        heads = ["samples", "L2", "H1"]
        results_console().print(build_table(str(values["data"]), ["grid", "precision"], heads, rows))

    def _row(self, values: dict[str, object], precision: str, suffix: str) -> list[str]:
        errors = [values[f"{name}{suffix}"] for name in ("l2", "h1")]
        texts = ["-" if error is None else f"{error:.5f}" for error in errors]
        return [str(values["grid"]), precision, str(values["samples"]), *texts]


def _policy_of(model: nn.Module) -> Policy:
    return cast(Policy, stepping_model(getattr(model, "model", model)).policy)


def check_fits(model: object, channels: int, axes: int, path: Path) -> None:
    """InputError when a file's channels or axes are not those of the model."""
    bare = getattr(model, "model", model)
    expected = (getattr(bare, "in_channels", None) or channels, getattr(bare, "n_dim", None) or axes)
    if (channels, axes) != expected:
        raise InputError(
            f"{path} has {channels} channels on {axes} grid axes; the model takes {expected[0]} on {expected[1]}"
        )
