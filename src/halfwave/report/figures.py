"""Panels as a picture: log axes where asked for, bars of deviation, colours told apart by every kind of vision."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfwave.report.summary import Panel, Series

# Okabe and Ito's colours; markers and hatches tell the series apart in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "**")
_LARGEST_BALL = 900.0  # area in square points


def draw(panels: Sequence[Panel]) -> bytes:
    """The panels side by side, two to a row, as PNG."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns if columns > 1 else 6.4, 3.9 * rows), layout="constrained")
    for panel, axes in zip(panels, figure.subplots(rows, columns, squeeze=False).flat, strict=False):
        _draw_panel(axes, panel)
    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    picture = io.BytesIO()
    # Without metadata the same numbers give the same bytes.
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    return picture.getvalue()


def _draw_panel(axes: Axes, panel: Panel) -> None:
    bars = [series for series in panel.series if series.style == "bars"]
    for index, series in enumerate(panel.series):
        if series.style == "bars":
            _draw_bars(axes, series, index, bars.index(series), len(bars))
        elif series.style == "balls":
            _draw_balls(axes, series, index)
        else:
            _draw_points(axes, series, index)
    axes.set_title(panel.title, fontsize=11)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    if panel.xlog:
        axes.set_xscale("log")
    if panel.ylog:
        axes.set_yscale("log")
    axes.grid(True, which="major", color="0.9")
    axes.set_axisbelow(True)
    if len(panel.series) > 1:
        axes.legend(fontsize=8, frameon=False)


def _draw_points(axes: Axes, series: Series, index: int) -> None:
    line = {"line": "-", "dashed": "--", "points": ""}[series.style]
    marker = "" if series.style == "dashed" else _MARKERS[index % len(_MARKERS)]
    axes.errorbar(
        series.x,
        series.y,
        yerr=series.error,
        linestyle=line,
        marker=marker,
        markersize=4.5,
        capsize=2,
        color=_COLOURS[index % len(_COLOURS)],
        label=series.label,
    )


def _draw_bars(axes: Axes, series: Series, index: int, place: int, count: int) -> None:
    """Bars of several series stand side by side at each category."""
    width = 0.8 / count
    positions = [n + width * (place - (count - 1) / 2) for n in range(len(series.x))]
    axes.bar(
        positions,
        series.y,
        width,
        yerr=series.error,
        capsize=2,
        color=_COLOURS[index % len(_COLOURS)],
        hatch=_HATCHES[index % len(_HATCHES)],
        edgecolor="white",
        label=series.label,
    )
    crowded = len(series.x) > 5 or max(len(str(x)) for x in series.x) > 8
    axes.set_xticks(range(len(series.x)), [str(x) for x in series.x], rotation=30 if crowded else 0)


def _draw_balls(axes: Axes, series: Series, index: int) -> None:
    assert series.size is not None, "balls need sizes"
    largest = max(series.size)
    axes.scatter(
        series.x,
        series.y,
        s=[_LARGEST_BALL * size / largest for size in series.size],
        alpha=0.65,
        color=_COLOURS[index % len(_COLOURS)],
        edgecolors="black",
        label=series.label,
    )
