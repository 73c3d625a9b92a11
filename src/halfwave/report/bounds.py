"""Bounds and measurements over resolution as a picture, from the result file of `halfwave bounds` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from halfwave.errors import InputError
from halfwave.files import read_json, written_aside
from halfwave.report.crossover import draw_crossover

# Okabe and Ito's colours, told apart by every kind of colour vision; bounds are dashed lines, measurements marks.
_SERIES = {
    "discretization_bound": ("discretization, bound", "#0072B2", "--", ""),
    "discretization_measured": ("discretization, measured", "#0072B2", "-", "o"),
    "precision_bound": ("precision, bound", "#D55E00", "--", ""),
    "precision_measured": ("precision, measured", "#D55E00", "-", "s"),
}
_ESTIMATED = {"discretization_bound": "discretization, bound by estimated constants"}
_TITLES = {
    "bounds": "One Fourier coefficient in {format} ({algorithm})",
    "data": "Coefficients of {fields} fields in {format} ({algorithm})",
}
_CERTIFICATE = "certificate"


def is_result(path: Path) -> bool:
    """Whether a JSON file is a result of `halfwave bounds`."""
    try:
        found = read_json(path)
    except InputError:
        return False
    return isinstance(found, dict) and found.get("kind") in (*_TITLES, _CERTIFICATE) and "rows" in found


def draw_bounds(source: str | Path, target: str | Path) -> None:
    """Write the figure `target` (PNG) of the result file `source`: log-log over points a side."""
    result = read_json(source)
    figure = Figure(figsize=(7, 5.0), layout="constrained")
    axes = figure.subplots()
    if result["kind"] == _CERTIFICATE:
        draw_crossover(axes, result)
    else:
        _draw_bounds(axes, result)
    # Below the axes, where it hides no line.
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    with written_aside(target) as aside:
        figure.savefig(aside, format="png", dpi=130)


def _draw_bounds(axes: Axes, result: dict[str, Any]) -> None:
    rows = sorted(result["rows"], key=lambda row: row["side"])
    for key in _SERIES:
        _draw(axes, rows, key, result)
    _label(axes, rows, result)


def _draw(axes: Axes, rows: list[dict[str, Any]], key: str, result: dict[str, Any]) -> None:
    points = [(row["side"], row[key]) for row in rows if row.get(key)]
    if not points:
        return
    label, colour, line, marker = _SERIES[key]
    names = _ESTIMATED if result.get("estimated") else {}
    lone = "_" if len(points) == 1 and not marker else marker
    axes.plot(*zip(*points, strict=True), line, color=colour, marker=lone, markersize=6, label=names.get(key, label))


def _label(axes: Axes, rows: list[dict[str, Any]], result: dict[str, Any]) -> None:
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="points a side",
        ylabel=f"error of the coefficient {tuple(result['frequency'])}",
    )
    sides = [row["side"] for row in rows]
    axes.set_xticks(sides[:: max(1, len(sides) // 10)])
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(_TITLES[result["kind"]].format(**result), fontsize=11)
    axes.grid(True, which="major", color="0.9")
