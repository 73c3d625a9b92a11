"""synthetic-spectrum: how much half precision takes from each frequency of a signal whose amplitudes decay."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.numerics import arithmetic_of
from halfwave.recipes import HALF
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.spectral import FourierTransform

FREQUENCIES = 10
DECAY = 1.0  # amplitudes are drawn from [0.5, 1) and fall by a factor e with each frequency
SIGNALS: dict[Scale, int] = {"smoke": 5, "small": 50, "paper": 50}


@dataclass(frozen=True)
class Signal:
    """One random signal on a grid, and the transform that is rounded."""

    backend: str
    seed: int
    points: int = 256


def configurations(scale: Scale) -> list[Signal]:
    return [Signal(backend, seed) for backend in ("fft", "gemm") for seed in range(SIGNALS[scale])]


def measure(signal: Signal, lab: Lab) -> list[dict[str, Any]]:
    values = _signal(signal)
    transform = FourierTransform((2 * FREQUENCIES + 2,), signal.backend)  # type: ignore[arg-type]
    exact, half = (_amplitudes(transform, values, name) for name in ("fp64", HALF))
    rows = []
    for frequency in range(1, FREQUENCIES + 1):
        truth, found = exact[frequency].item(), half[frequency].item()
        percent = 100 * abs(found - truth) / truth
        rows.append({"frequency": frequency, "amplitude": truth, "half_amplitude": found, "error_percent": percent})
    return rows


def _signal(signal: Signal) -> torch.Tensor:
    """sum_k a_k sin(2πkx) + b_k cos(2πkx) on the grid, with a_k and b_k = U[0.5, 1) e^{-decay k}."""
    generator = torch.Generator().manual_seed(signal.seed)
    k = torch.arange(1, FREQUENCIES + 1, dtype=torch.float64)
    uniform = torch.rand(2, FREQUENCIES, generator=generator, dtype=torch.float64)
    amplitudes = (0.5 + 0.5 * uniform) * torch.exp(-DECAY * k)
    angles = 2 * torch.pi * torch.arange(signal.points, dtype=torch.float64)[:, None] * k / signal.points
    return angles.sin() @ amplitudes[0] + angles.cos() @ amplitudes[1]


def _amplitudes(transform: FourierTransform, values: torch.Tensor, format: str) -> torch.Tensor:
    """|v_hat(k)| for k = 0, 1, ..., the transform in `format`."""
    spectrum = transform.forward(values.view(1, 1, -1), arithmetic_of(format, "cpu"))  # K, 2, 1, 1
    return spectrum.double().flatten(1).norm(dim=1)


def exhibit(rows: list[Row]) -> Exhibit:
    medians = {backend: _medians(rows, backend, "error_percent") for backend in ("fft", "gemm")}
    amplitudes = _medians(rows, "fft", "amplitude")
    k = tuple(range(1, FREQUENCIES + 1))
    lines = tuple(Line((n,), (None,) * 3, (amplitudes[n], medians["fft"][n], medians["gemm"][n])) for n in k)
    figures = ("amplitude", "error of half, % (fft)", "error of half, % (gemm)")
    errors = tuple(Series(name, k, tuple(values[n] for n in k)) for name, values in medians.items())
    spectrum = Series("amplitude", k, tuple(amplitudes[n] for n in k))
    return Exhibit(
        Comparison(("frequency",), figures, lines),
        (
            Panel("spectrum", "frequency", "amplitude (median)", (spectrum,), ylog=True),
            Panel("error due to half precision", "frequency", "% of the amplitude (median)", errors, ylog=True),
        ),
        ("The paper shows a figure without numbers; ours are medians over random signals.",),
    )


def _medians(rows: list[Row], backend: str, column: str) -> dict[int, float]:
    def of(frequency: int) -> float:
        found = [r[column] for r in rows if r["backend"] == backend and r["frequency"] == frequency]
        return statistics.median(found)

    return {frequency: of(frequency) for frequency in range(1, FREQUENCIES + 1)}


def _check(backend: str, rows: list[Row]) -> Outcome:
    """Exponential growth: the medians grow by a factor with each frequency, over the whole range."""
    errors = _medians(rows, backend, "error_percent")
    growth = (errors[FREQUENCIES] / errors[1]) ** (1 / (FREQUENCIES - 1))
    return Outcome.of(growth > 1.2, f"with {backend} the percentage error grows {growth:.2f}-fold with each frequency")


PARTS = (
    Part("with FFTs the percentage error increases exponentially", "exponentially", 1421, partial(_check, "fft")),
    Part("with matrix products it does too", "", None, partial(_check, "gemm")),
)
EXPERIMENT = Experiment(
    name="synthetic-spectrum",
    source="Figure 'Synthetic signal', appendix 'Frequency Mode Ablation Study'",
    question="Which frequencies of a signal with decaying amplitudes does half precision damage?",
    claim="The error of half precision, in percent of the amplitude, increases exponentially with the frequency.",
    parts=PARTS,
    measures=(
        Measure("frequency", "k"),
        Measure("amplitude", "|v_hat(k)| in float64"),
        Measure("half_amplitude", f"|v_hat(k)| in {HALF}"),
        Measure("error_percent", "their difference in percent of the amplitude"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
)
