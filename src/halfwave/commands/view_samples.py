"""What `halfwave view` shows of a run's answers: fields, clouds or steps in time, errors and spectra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from halfwave.data import Dataset, PointDataset, Window
from halfwave.errors import InputError
from halfwave.models import unpack_points
from halfwave.report import Curve, Gallery, LineChart, Shot, ShownSample
from halfwave.training import (
    AnyDataset,
    CloudSamples,
    TrainConfig,
    longest_rollout,
    roll_out,
    sample_errors,
    start_of,
    stepper_of,
    truth_of,
    wave_spectrum,
)

_MOST_CHANNELS, _MOST_TIMES, _MEASURED, _CLOUD_POINTS = 3, 32, 64, 4000
Charts = list[LineChart]


@dataclass(frozen=True)
class Answers:
    """Samples to look at, with the charts of their errors and spectra."""

    gallery: Gallery
    errors: Charts
    spectra: Charts
    no_spectra: str = ""


def gather_answers(model: nn.Module, dataset: AnyDataset, config: TrainConfig, samples: int) -> Answers:
    """Of the first test samples; InputError for data that are not those of the model."""
    if isinstance(dataset, PointDataset):
        return _clouds(model, dataset, samples)
    if dataset.test.windows is not None:
        return _in_time(model, dataset, config, samples)
    return _fields(model, dataset, samples)


@torch.no_grad()
def _fields(model: nn.Module, dataset: Dataset, samples: int) -> Answers:
    x, y = dataset.test[: min(samples, dataset.n_test)]
    answers = model(x)
    shown = [ShownSample(f"test sample {i}", [_shot("", x[i], y[i], answers[i])]) for i in range(len(x))]
    note = f"Inputs, truth and answers of the first {len(x)} of {dataset.n_test} test samples."
    return Answers(_gallery(dataset, shown, note), _error_charts(model, dataset.test), _spectra(y, answers, dataset))


@torch.no_grad()
def _in_time(model: nn.Module, dataset: Dataset, config: TrainConfig, samples: int) -> Answers:
    """A rollout from the beginning of some trajectories."""
    _, unrolled = stepper_of(model)
    windows = dataset.test.windows
    assert windows is not None, "asked for only where there are some"
    source, window = windows.source, Window(unrolled.unrolling.history, 1, config.time_stride)
    indices = np.arange(min(samples, source.count))
    steps = longest_rollout(source, window)
    x, truth = start_of(source, window, indices), truth_of(source, window, indices, steps)
    states = torch.stack(list(roll_out(model, x, steps)), dim=1).float()
    interval = float(dataset.metadata.get("interval", 1.0)) * window.stride
    kept = sorted({round(t) for t in np.linspace(0, steps - 1, min(steps, _MOST_TIMES))})
    state = x[:, (window.history - 1) * source.channels : window.history * source.channels]
    shown = [
        ShownSample(
            f"trajectory {i}",
            [_shot(f"step {t + 1}, t = {interval * (t + 1):.4g}", state[i], truth[i, t], states[i, t]) for t in kept],
        )
        for i in range(len(x))
    ]
    errors = [[_relative(states[i, t], truth[i, t]) for t in range(steps)] for i in range(len(x))]
    curves = [Curve.of(f"trajectory {i}", range(1, steps + 1), row) for i, row in enumerate(errors[:4])]
    chart = LineChart("Error along the rollout", "step", "relative L2", tuple(curves))
    note = f"The model applied to its own answers, {steps} steps from the beginning of each trajectory."
    return Answers(_gallery(dataset, shown, note), [chart], _spectra(truth[:, -1], states[:, -1], dataset, "last step"))


@torch.no_grad()
def _clouds(model: nn.Module, dataset: PointDataset, samples: int) -> Answers:
    encoder = getattr(model, "encoder", None)
    if encoder is None:
        raise InputError(f"{dataset.path} holds point clouds; the model takes fields on a grid")
    shown = []
    for i in range(min(samples, dataset.n_test)):
        body = dataset.test[i]
        batch = encoder.collate([body])
        answer = next(iter(unpack_points(model(batch), batch.offsets)))[:, 0]
        kept = slice(None, None, max(1, len(body.points) // _CLOUD_POINTS))
        error = _relative(answer, body.pressure)
        pair = [values[kept].numpy()[None] for values in (body.pressure, answer)]
        shot = Shot("", error, np.zeros((0, len(pair[0][0]))), *pair)
        shown.append(ShownSample(f"test body {i}", [shot], body.points[kept].numpy()))
    note = f"Pressure on the first {len(shown)} of {dataset.n_test} test bodies, seen from the side."
    gallery = Gallery("points", shown, note, (), ("pressure",))
    split = CloudSamples(dataset.test, encoder)
    return Answers(gallery, _error_charts(model, split), [], "points have no waves")


def _gallery(dataset: Dataset, shown: Sequence[ShownSample], note: str) -> Gallery:
    kind: Any = "line" if len(dataset.grid) == 1 else "map" if dataset.domain.plot == "map" else "plane"
    cut = " Of three axes the middle of the last is shown." if len(dataset.grid) == 3 else ""
    known = list(dataset.metadata.get("channels", ()))
    first = shown[0].shots[0]
    return Gallery(kind, shown, note + cut, _names("input", known, first.inputs), _names("output", known, first.truth))


def _names(word: str, known: list[str], fields: np.ndarray) -> list[str]:
    names = known if len(known) == len(fields) else []
    return [f"{word}: {names[i]}" if names else f"{word} {i}" if len(fields) > 1 else word for i in range(len(fields))]


def _shot(label: str, x: Tensor, y: Tensor, answer: Tensor) -> Shot:
    parts = (part[:_MOST_CHANNELS].float().numpy() for part in (x, y, answer))
    return Shot(label, _relative(answer, y), *parts)


def _relative(answer: Tensor, truth: Tensor) -> float | None:
    size = float(truth.double().norm())
    return float((answer.double() - truth.double()).norm()) / size if size else None


def _error_charts(model: nn.Module, split: Any) -> Charts:
    """Errors of single samples, the best first."""
    count = min(_MEASURED, len(split))
    found = sample_errors(model, split, range(count), 8)
    curves = [
        Curve.of(f"relative {name.upper()}", range(1, count + 1), sorted(found[name][:count].tolist()))
        for name in ("l2", "h1")
        if name in found
    ]
    return [LineChart(f"Errors of {count} test samples, the smallest first", "rank", "relative error", tuple(curves))]


def _spectra(truth: Tensor, answers: Tensor, dataset: Dataset, when: str = "") -> Charts:
    powers = {"truth": truth, "prediction": answers, "error": answers - truth}
    found = {name: wave_spectrum(fields, dataset.domain).tolist() for name, fields in powers.items()}
    curves = [Curve.of(name, range(1, len(power) + 1), power) for name, power in found.items()]
    title = f"Power by wavenumber{f', {when}' if when else ''}, mean of {len(truth)} samples"
    return [LineChart(title, "waves a side", "power", tuple(curves), log_x=True)]
