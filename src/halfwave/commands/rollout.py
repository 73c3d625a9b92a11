"""`halfwave rollout RUN`: a stepper applied to its own answers, against the truth, and half against full along it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn
from tyro.conf import Positional

from halfwave.certificates import predict_error
from halfwave.commands.common import ReadingOptions, as_usage, log_console, results_console
from halfwave.data import Dataset, Trajectories, Window, open_any
from halfwave.display import progress_of
from halfwave.errors import InputError, UsageError
from halfwave.files import make_directory, remove_leftovers, write_json, written_aside
from halfwave.models import set_precision
from halfwave.precision import PRECISIONS, Policy
from halfwave.report import animate_rollout, draw_rollout
from halfwave.tables import build_table
from halfwave.training import (
    Parting,
    RolloutResult,
    Spectrum,
    compare_precisions,
    evaluate_rollout,
    find_model_file,
    load,
    open_data,
    read_config,
    start_of,
    stepper_of,
)

_COMPARED = 4
"""Trajectories on which precisions are compared."""


@dataclass
class Rollout(ReadingOptions):
    """Steps in time: error, spectra, an animation, how long half is safe."""

    run_path: Positional[Path]
    """Run directory of a training with --horizon, or a model file."""
    data: Path | None = None
    """Trajectories; by default the run's own test split."""
    steps: int | None = None
    """Steps to roll out; by default as many as the trajectories have."""
    precision: str | None = None
    """Roll out under another policy: full, amp, half, mixed, double; by default the trained one."""
    against: Literal["half", "mixed", "amp", "none"] = "mixed"
    """Policy that is compared with full along the rollout."""
    dtype: str | None = None
    """What half means for --precision and --against; by default what is fast here."""
    animation: Literal["gif", "html", "none"] = "gif"
    """What to write of the first trajectory beside the picture."""
    batch_size: int = 8
    """Trajectories at a time."""
    out: Path | None = None
    """Directory of rollout.json, rollout.npz, rollout.png and the animation; by default RUN/rollout."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> None:
        if self.precision is not None and self.precision not in PRECISIONS:
            raise UsageError(f"unknown precision {self.precision!r}: expected one of {', '.join(PRECISIONS)}")
        model = load(find_model_file(self.run_path))
        stepper_of(model)
        if self.precision is not None:
            set_precision(model, as_usage(lambda: Policy.named(self.precision or "full", self.dtype)))
        source, window, dataset = open_trajectories(model, self.run_path, self.data, self)
        if not self.json:
            log_console().print(dataset.understood(), soft_wrap=True)
        result = rolled_out(model, source, window, dataset, self.steps, self.batch_size)
        parting = None if self.against == "none" else self._parting(model, source, window, result)
        values = self._write(result, parting, dataset)
        if self.json:
            print(json.dumps(values))
            return
        console = results_console()
        console.print(rollout_table(result, str(self.run_path)))
        for line in remarks(result, parting):
            console.print(line, soft_wrap=True)
        console.print(f"picture: {self._out / 'rollout.png'}", soft_wrap=True)

    @property
    def _out(self) -> Path:
        folder = self.run_path if self.run_path.is_dir() else self.run_path.parent
        return self.out or folder / "rollout"

    def _parting(self, model: nn.Module, source: Trajectories, window: Window, result: RolloutResult) -> Parting | None:
        if not result.steps:
            return None
        policy = as_usage(lambda: Policy.named(self.against, self.dtype))
        x = start_of(source, window, np.arange(min(_COMPARED, source.count)))
        return compare_precisions(
            model, x, policy, result.mean_errors, interval=result.interval, step_error=certified_step_error
        )

    def _write(self, result: RolloutResult, parting: Parting | None, dataset: Dataset) -> dict[str, Any]:
        out = make_directory(self._out)
        remove_leftovers(out)
        values = {
            "title": f"{self.run_path.name} on {dataset.path.name}",
            "run": str(self.run_path),
            "data": str(dataset.path),
            **result.to_dict(),
            "parting": None if parting is None else parting.to_dict(),
        }
        write_json(out / "rollout.json", values)
        truth, prediction = result.shown
        with written_aside(out / "rollout.npz") as aside, open(aside, "wb") as file:
            np.savez(file, truth=truth, prediction=prediction)
        if result.steps:
            draw_rollout(out, out / "rollout.png")
            if self.animation != "none":
                animate_rollout(out, out / f"rollout.{self.animation}")
        return values


def open_trajectories(
    model: nn.Module, run: Path, data: Path | None, reading: ReadingOptions
) -> tuple[Trajectories, Window, Dataset]:
    """The test trajectories of a file, or of the run's own data, and the window that the model steps with."""
    _, unrolled = stepper_of(model)
    config = read_config(run / "config.json") if run.is_dir() else None
    stride = 1 if config is None else config.time_stride
    window = Window(unrolled.unrolling.history, 1, stride)
    if data is not None:
        dataset = open_any(data, reading.read_options(unrolled.model, window=window))
    elif config is None:
        raise UsageError("a model file does not know its data: give --data FILE")
    else:
        dataset = open_data(config.model_copy(update={**reading.asked, "horizon": 1, "horizons": None}))
    if not isinstance(dataset, Dataset) or dataset.test.windows is None:
        raise InputError(f"{dataset.path} has no trajectories on a grid")
    source = dataset.test.windows.source
    expected = unrolled.in_channels
    if expected is not None and dataset.in_channels != expected:
        raise InputError(f"{dataset.path} has {dataset.in_channels} channels of input; the model takes {expected}")
    return source, window, dataset


def rolled_out(
    model: nn.Module, source: Trajectories, window: Window, dataset: Dataset, steps: int | None, batch_size: int
) -> RolloutResult:
    """`evaluate_rollout` under a progress bar, with the spectra that the dataset's domain has."""
    metadata = dataset.metadata
    lengths = getattr(dataset.domain, "lengths", ())
    spectrum = Spectrum(lengths, is_vorticity=metadata.get("quantity") == "vorticity")
    with progress_of("rolling out", log_console()) as progress:
        return evaluate_rollout(
            model,
            source,
            window,
            steps,
            interval=float(metadata.get("interval", 1.0)),
            spectrum=spectrum,
            batch_size=batch_size,
            progress=progress,
        )


def certified_step_error(model: nn.Module, x: Any, policy: Policy) -> Tensor:
    """What the adjoint certificate predicts of one step's rounding (B,), relative to the answer."""
    return predict_error(model, x, policy)


def rollout_table(result: RolloutResult, title: str) -> Any:
    """Errors at a few steps."""
    chosen = sorted({1, *(max(1, round(result.steps * share)) for share in (0.1, 0.25, 0.5, 1.0))})
    low, middle, high = (result.quantiles[name] for name in sorted(result.quantiles, key=float))
    rows = [
        (
            str(step), f"{result.interval * step:.4g}", f"{result.mean_errors[step - 1]:.3e}", f"{low[step - 1]:.3e}",
            f"{middle[step - 1]:.3e}", f"{high[step - 1]:.3e}", f"{result.correlations[step - 1]:.3f}",
        )
        for step in chosen
        if step <= result.steps
    ]  # fmt: skip
    return build_table(title, ["step"], ["time", "mean L2", "10%", "50%", "90%", "correlation"], rows)


def remarks(result: RolloutResult, parting: Parting | None) -> list[str]:
    """What a reader of the table must know."""
    lines = []
    if result.blowup is not None:
        lines.append(f"stopped: {result.blowup}; figures are of the {result.steps} steps before")
    reached = (
        "not within the rollout" if result.correlation_time >= result.interval * result.steps else "then below 0.8"
    )
    lines.append(f"correlation time {result.correlation_time:.4g} ({reached})")
    if parting is not None:
        lyapunov = "none" if parting.lyapunov_time is None else f"{parting.lyapunov_time:.4g}"
        lines.append(f"Lyapunov time of the model: {lyapunov}; {parting.advice}")
    return lines
