"""The demo's figure and its page, from the result files of a run directory alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfwave.files import written_aside
from halfwave.report.page import Picture, render, write_text

_UNITS = {"peak_memory_bytes": 1e-6, "activation_bytes": 1e-6}
_COLUMNS = {
    "l2": ("test L2", "{:.4f}"),
    "h1": ("test H1", "{:.4f}"),
    "peak_memory_bytes": ("peak memory, MB", "{:.0f}"),
    "activation_bytes": ("activations, MB", "{:.0f}"),
    "samples_per_second": ("samples/s", "{:.1f}"),
}


def write_fields_figure(source: Path, target: Path) -> None:
    """Input, truth, predictions and errors of one sample as a picture; `source` is the demo's fields.h5."""
    with h5py.File(source, "r") as file:
        coefficient, truth = file["input"][()], file["truth"][()]
        predictions = {name: file[f"prediction/{name}"][()] for name in ("full", "mixed")}
    figure = Figure(figsize=(9.6, 6.0), layout="constrained")
    axes = figure.subplots(2, 3)
    _show(figure, axes[0, 0], coefficient, "input: permeability a", cmap="cividis")
    _show(figure, axes[1, 0], truth, "truth: pressure u")
    scale = max(np.abs(p - truth).max() for p in predictions.values())
    for column, (name, prediction) in enumerate(predictions.items(), start=1):
        limits = {"vmin": truth.min(), "vmax": truth.max()}
        _show(figure, axes[0, column], prediction, f"{name} precision", **limits)
        error = np.abs(prediction - truth)
        relative = np.linalg.norm(error) / np.linalg.norm(truth)
        _show(figure, axes[1, column], error, f"|error| {name}, L2 {relative:.2%}", cmap="magma", vmin=0, vmax=scale)
    with written_aside(target) as aside:
        figure.savefig(aside, format="png", dpi=130)


def _show(figure: Figure, axis: Axes, field: np.ndarray, title: str, cmap: str = "viridis", **limits: Any) -> None:
    image = axis.imshow(field.T, origin="lower", cmap=cmap, interpolation="nearest", extent=(0, 1, 0, 1), **limits)
    axis.set_title(title, fontsize=10)
    axis.set_xticks([0, 1])
    axis.set_yticks([0, 1])
    figure.colorbar(image, ax=axis, shrink=0.85)


def write_page(directory: Path) -> None:
    """report.html: the table, the figure and the setting in one file that needs no network."""
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    setting = json.loads((directory / "setting.json").read_text(encoding="utf-8"))
    fields = Picture((directory / "fields.png").read_bytes(), "Input, truth, both predictions and their errors")
    text = render(
        "demo.html",
        verdict=_verdict(summary),
        heads=[head for head, _ in _COLUMNS.values()],
        rows={name: [_cell(key, row[key]) for key in _COLUMNS] for name, row in summary.items()},
        ratios=[f"{summary['mixed'][key] / summary['full'][key]:.2f}×" for key in _COLUMNS],
        fields=fields,
        setting=_setting(setting),
    )
    write_text(directory / "report.html", text)


def _cell(key: str, value: float) -> str:
    return _COLUMNS[key][1].format(value * _UNITS.get(key, 1.0))


def _verdict(summary: dict[str, dict[str, float]]) -> str:
    """One sentence from the numbers."""
    full, mixed = summary["full"], summary["mixed"]
    error = mixed["l2"] / full["l2"] - 1
    memory = 1 - mixed["activation_bytes"] / full["activation_bytes"]
    speed = mixed["samples_per_second"] / full["samples_per_second"]
    change = f"{abs(error):.1%} {'higher' if error > 0 else 'lower'}"
    return (
        f"Mixed precision needed {memory:.0%} less activation memory and ran at {speed:.2f} times the speed; "
        f"its test L2 error was {change} than full precision's."
    )


def _setting(setting: dict[str, Any]) -> list[str]:
    recipe = setting["recipe"]
    arguments = ", ".join(f"{key}={value}" for key, value in recipe["arguments"].items())
    training = ", ".join(f"{key}={value}" for key, value in recipe["training"].items())
    return [
        f"Data: {recipe['generator']} {recipe['parameters']}, {recipe['n_train']} train and {recipe['n_test']} test",
        f"Model: {recipe['model']}({arguments})",
        f"Training: {training}, seed={setting['seed']}",
        f"Machine: {setting['machine']}; torch {setting['torch']}",
    ]
