"""preactivation-spectrum: what each stabilizer does to amplitude and phase of the signals in a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halfwave.certificates import core_of, observe
from halfwave.data import Dataset
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.overflow import ROUNDED
from halfwave.precision import get_stabilizer
from halfwave.recipes import problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

# The paper shows the mean differences of amplitude and phase for tanh, as pictures without numbers.
STABILIZERS = ("tanh", "hard-clip", "2-sigma-clip", "divide-10", "normalise")
MODELS: Mapping[str, tuple[str, dict[str, Any]]] = {"full": ("full", {}), "mixed": ("mixed", dict(ROUNDED))}
SAMPLES = 8
CHANGED = 0.1
"""A frequency whose mean amplitude moves by more than this share of the largest one has changed."""
ALIGNED = 0.1
"""Signals whose phases differ by less than this, in rad, are aligned; the paper says no more than 'well aligned'."""


@dataclass(frozen=True)
class TrainedModel:
    """A model trained on Navier-Stokes; mixed has a half-precision FFT with tanh, as the paper's."""

    model: str
    training: Training


def configurations(scale: Scale) -> list[TrainedModel]:
    recipe = problem("navier-stokes", scale)
    return [
        TrainedModel(name, Training(recipe, precision, 0, changes)) for name, (precision, changes) in MODELS.items()
    ]


def measure(trained: TrainedModel, lab: Lab) -> list[dict[str, Any]]:
    run = lab.train(trained.training)
    if run.result is None:
        raise RuntimeError(f"{trained.model} diverged: {run.reason}")
    dataset = lab.dataset(trained.training.recipe)
    assert isinstance(dataset, Dataset)
    x = dataset.test[: min(SAMPLES, len(dataset.test))][0]
    seen = observe(*core_of(run.operator(), x))
    fields = {name.removesuffix(".conv"): v.double() for name, v in seen.inputs.items() if name.endswith(".conv")}
    return [
        {"block": number, "stabilizer": name, **row}
        for number, field in enumerate(fields.values())
        for name in STABILIZERS
        for row in spectral_changes(field, get_stabilizer(name)(field))
    ]


def spectral_changes(before: Tensor, after: Tensor) -> list[dict[str, Any]]:
    """Mean changes of amplitude and phase by frequency band max(|k|, |l|) = 0, 1, 2, ..., and over all (band -1).

    The amplitude's change is relative to the band's own mean amplitude; a phase counts with its amplitude, because
    the phase of a coefficient near 0 is noise.
    """
    v, w = (torch.fft.rfft2(field, norm="forward").flatten(0, 1) for field in (before, after))
    band = _bands(v.shape[-2:])
    amplitude, moved = v.abs(), (w.abs() - v.abs()).abs()
    turned = (torch.angle(w * v.conj())).abs() * amplitude
    mean = amplitude.mean(0)
    changed = (moved.mean(0) > CHANGED * mean.max()).double().mean()
    rows = []
    for number in (-1, *range(int(band.max()) + 1)):
        of = band >= 0 if number < 0 else band == number
        total = amplitude[:, of].sum().clamp_min(1e-300)
        rows.append(
            {
                "band": number,
                "amplitude": float(amplitude[:, of].mean()),
                "amplitude_change": float(moved[:, of].sum() / total),
                "phase_change": float(turned[:, of].sum() / total),
                "changed_share": float(changed) if number < 0 else None,
            }
        )
    return rows


def _bands(shape: torch.Size) -> Tensor:
    rows, columns = shape
    k = torch.fft.fftfreq(rows, 1 / rows).abs().round()
    return torch.maximum(k[:, None], torch.arange(columns)[None].to(k.dtype)).long()


def summarise(rows: list[Row]) -> Summary:
    models = list(dict.fromkeys(row["model"] for row in rows))
    overall = {(m, s): _mean([r for r in rows if r["model"] == m and r["stabilizer"] == s and r["band"] == -1])
               for m in models for s in STABILIZERS}  # fmt: skip
    lines = tuple(Line(key, (None,) * 3, tuple(overall[key].values())) for key in overall)
    return Summary(
        Comparison(
            ("model", "stabilizer"),
            ("change of amplitude, %", "change of phase, rad", f"frequencies changed by > {CHANGED:.0%}, %"),
            lines,
        ),
        tuple(_panel(rows, model, *what) for model in models for what in _SHOWN),
        Verdict(tuple(check for model in models for check in _checks(overall, model))),
        (
            "Means over blocks, channels and samples, weighted with the amplitudes. A frequency has changed if its "
            f"mean amplitude moves by more than {CHANGED:.0%} of the largest one.",
            "The paper shows pictures of tanh without numbers.",
        ),
    )


_SHOWN = (("amplitude_change", "change of amplitude", True), ("phase_change", "change of phase, rad", False))


def _mean(rows: list[Row]) -> dict[str, float]:
    """Over the blocks; shares in percent."""
    count = len(rows)
    return {
        "amplitude": 100 * sum(row["amplitude_change"] for row in rows) / count,
        "phase": sum(row["phase_change"] for row in rows) / count,
        "changed": 100 * sum(row["changed_share"] for row in rows) / count,
    }


def _panel(rows: list[Row], model: str, column: str, label: str, ylog: bool) -> Panel:
    series = []
    for name in STABILIZERS:
        own = [r for r in rows if r["model"] == model and r["stabilizer"] == name and r["band"] >= 0]
        bands = sorted({row["band"] for row in own})
        means = [_average([row[column] for row in own if row["band"] == band]) for band in bands]
        series.append(Series(name, bands, means))
    return Panel(f"{model} model", "frequency", label, tuple(series), ylog=ylog)


def _average(values: list[float]) -> float:
    return sum(values) / len(values)


def _checks(overall: Mapping[tuple[str, str], dict[str, float]], model: str) -> tuple[Check, ...]:
    tanh = overall[model, "tanh"]
    least = min((name for name in STABILIZERS if name != "tanh"), key=lambda name: overall[model, name]["amplitude"])
    return (
        Check(
            tanh["changed"] < 5,
            f"{model}: tanh changes {tanh['changed']:.1f}% of the frequencies noticeably and amplitudes by "
            f"{tanh['amplitude']:.1f}% (least of the others: {least}, {overall[model, least]['amplitude']:.1f}%)",
        ),
        Check(tanh["phase"] < ALIGNED, f"{model}: tanh turns phases by {tanh['phase']:.3f} rad on average"),
    )


EXPERIMENT = Experiment(
    name="preactivation-spectrum",
    source="Figure 'Impact of pre-activation on frequency domain signals'",
    question="How much of the signal does a stabilizer change, in amplitude and phase?",
    claim="tanh changes only an extremely small fraction of frequencies, and the signals are well aligned in phase.",
    measures=(
        Measure("block", "number of the FNO block whose input is transformed"),
        Measure("stabilizer", "what acts on it"),
        Measure("band", "frequencies with max(|k|, |l|) of this number; -1 for all of them"),
        Measure("amplitude", "mean of |v_hat|"),
        Measure("amplitude_change", "mean of | |w_hat| - |v_hat| | over mean of |v_hat|"),
        Measure("phase_change", "mean angle between w_hat and v_hat, weighted with |v_hat|, rad"),
        Measure("changed_share", "share of frequencies that changed, in the row for all"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda trained: (trained.training,),
)
