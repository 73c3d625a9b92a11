"""A run as one page: curves, fields to leaf through, spectra, errors, certificate, plan.

Fields are put into the page as whole numbers of 16 bits between their least and largest value, which a screen's 256
colours cannot tell from the numbers themselves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from halfwave.report.line_chart import LineChart
from halfwave.report.page import render, write_text

MOST_POINTS = 128
"""Along a side of a picture: of a finer grid every n-th point is shown."""
_LEVELS = 65535


@dataclass(frozen=True)
class Shot:
    """One moment of one sample: pictures by name, C x grid each, and the relative error of the answer.

    The truth and the prediction of a channel share their colours.
    """

    label: str
    error: float | None
    inputs: np.ndarray
    truth: np.ndarray
    prediction: np.ndarray


@dataclass(frozen=True)
class ShownSample:
    """A sample: its moments, of which one without time has one; of a cloud the points P x 3 and values C x P."""

    label: str
    shots: Sequence[Shot]
    points: np.ndarray | None = None


@dataclass(frozen=True)
class Gallery:
    """Samples to leap between; `kind` says how a field is drawn."""

    kind: Literal["plane", "map", "line", "points"]
    samples: Sequence[ShownSample]
    note: str = ""
    input_names: Sequence[str] = ()
    output_names: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {
            "kind": self.kind,
            "inputs": list(self.input_names),
            "outputs": list(self.output_names),
            "samples": [self._sample(sample) for sample in self.samples],
        }

    def _sample(self, sample: ShownSample) -> dict[str, Any]:
        shots = [
            {
                "label": shot.label,
                "error": None if shot.error is None else f"{shot.error:.3g}",
                "inputs": [self._picture(channel) for channel in shot.inputs],
                "outputs": [self._outputs(*pair) for pair in zip(shot.truth, shot.prediction, strict=True)],
            }
            for shot in sample.shots
        ]
        points = {} if sample.points is None else {"points": packed(sample.points)}
        return {"label": sample.label, "shots": shots, **points}

    def _outputs(self, truth: np.ndarray, prediction: np.ndarray) -> list[dict[str, Any]]:
        ends = float(min(truth.min(), prediction.min())), float(max(truth.max(), prediction.max()))
        return [
            self._picture(truth, ends),
            self._picture(prediction, ends),
            self._picture(np.abs(prediction - truth), (0.0, float(np.abs(prediction - truth).max()))),
        ]

    def _picture(self, values: np.ndarray, ends: tuple[float, float] | None = None) -> dict[str, Any]:
        return packed(upright(values, self.kind), ends)


@dataclass(frozen=True)
class RunPage:
    """All that a page shows of a run; what could not be had is a reason in `missing`, by the heading of its part.

    Attributes:
        title: of the run.
        facts: figures at the head, by name.
        charts: of training, errors and spectra, by heading.
        gallery: fields or clouds.
        certificate: in words, line by line.
        plan: columns, and rows of cells; `plan_note` says for which device.
        settings: of the run, by name.
        missing: why a part is not there.
    """

    title: str
    facts: Mapping[str, str]
    charts: Mapping[str, Sequence[LineChart]]
    gallery: Gallery | None = None
    certificate: str = ""
    plan: tuple[Sequence[str], Sequence[Sequence[str]]] = ((), ())
    plan_note: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def write_run_page(page: RunPage, path: Path) -> None:
    """The page as one file, whole or not at all."""
    write_text(path, run_page(page))


def run_page(page: RunPage) -> str:
    """The text of the page."""
    gallery = None if page.gallery is None else page.gallery.to_json()
    return render("run.html", page=page, gallery=gallery, colours=["line-1", "line-2", "line-3", "line-4"])


def packed(values: np.ndarray, ends: tuple[float, float] | None = None) -> dict[str, Any]:
    """An array as 16-bit whole numbers between its ends (or those given), in base64."""
    low, high = (float(values.min()), float(values.max())) if ends is None else ends
    scaled = np.zeros(values.shape) if high <= low else (values.astype(np.float64) - low) / (high - low)
    whole = np.clip(np.rint(scaled * _LEVELS), 0, _LEVELS).astype("<u2")
    data = base64.b64encode(whole.tobytes()).decode("ascii")
    return {"shape": list(values.shape), "low": low, "high": high, "data": data}


def upright(values: np.ndarray, kind: str) -> np.ndarray:
    """A field as rows of a picture from its top, thinned to `MOST_POINTS`; of three axes the middle of the last.

    A plane has its first axis to the right and its second upwards, a map the north at the top.
    """
    if kind in ("line", "points"):
        return values
    plane = values[..., values.shape[-1] // 2] if values.ndim == 3 else values
    step = max(1, -(-max(plane.shape) // MOST_POINTS))
    thin = plane[::step, ::step]
    return thin if kind == "map" else thin.T[::-1]
