"""Panels as a picture: log axes where asked for, bars of deviation, colours told apart by every kind of vision."""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from halfwave.report.summary import Panel, Series

# Okabe and Ito's colours; markers and hatches tell the series apart in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "**")
_LARGEST_BALL = 700.0  # area in square points
# A panel fills a phone's width with letters of about 9 pixels.
_WIDTH, _HEIGHT, _LEGEND_LINE = 4.9, 3.3, 0.2
_DPI = 140
_LETTERS = 46
"""Letters of a tick label that fit along the axis of categories."""
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.6,
}


def draw(panels: Sequence[Panel]) -> bytes:
    """The panels side by side, two to a row, as PNG; each with its legend below, where it hides no point."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    height = _HEIGHT + max(_LEGEND_LINE * _legend_lines(panel) for panel in panels)
    picture = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH * columns, height * rows), layout="constrained")
        places = figure.subfigures(rows, columns, squeeze=False).flat
        for panel, place, looks in zip(panels, places, _looks(panels), strict=False):
            _draw_panel(place, panel, looks)
        # Without metadata the same numbers give the same bytes.
        figure.savefig(picture, format="png", dpi=_DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
    return picture.getvalue()


def describe(panel: Panel) -> str:
    """A panel in words, for those who do not see it."""
    over = f" over {panel.xlabel}" if panel.xlabel else ""
    return f"{panel.title}: {panel.ylabel}{over}; {', '.join(series.label for series in panel.series)}"


def _looks(panels: Sequence[Panel]) -> Iterator[dict[str, int]]:
    """For each panel the numbers of colours and markers of its series, by name.

    A series looks as it does in the panels before, whichever others a panel lacks; a new one takes the first look that
    its panel has not.
    """
    known: dict[str, int] = {}
    for panel in panels:
        names = list(dict.fromkeys(series.called for series in panel.series))
        looks = {name: known[name] for name in names if name in known}
        for name in names:
            if name not in looks:
                looks[name] = next(look for look in itertools.count() if look not in looks.values())
        known |= looks
        yield looks


def _draw_panel(figure: FigureBase, panel: Panel, looks: dict[str, int]) -> None:
    axes = figure.subplots()
    categories = _categories(panel)
    bars = [series for series in panel.series if series.style == "bars"]
    largest = max((size for series in panel.series for size in series.size or ()), default=1.0)
    for series in panel.series:
        index = looks[series.called]
        positions = [categories[str(x)] for x in series.x] if categories else [float(x) for x in series.x]
        if series.style == "bars":
            _draw_bars(axes, series, positions, index, bars.index(series), len(bars))
        elif series.style == "balls":
            _draw_balls(axes, series, positions, index, largest)
        else:
            _draw_points(axes, series, positions, index)
    _label(axes, panel, list(categories))
    if len(panel.series) > 1:
        legend = figure.legend(loc="outside lower center", ncols=_legend_columns(panel), frameon=False)
        for handle in legend.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([40.0])


def _categories(panel: Panel) -> dict[str, float]:
    """Places of the names along the x axis, in the order of the series; empty where x are numbers."""
    named = any(series.style == "bars" or any(isinstance(x, str) for x in series.x) for series in panel.series)
    names = dict.fromkeys(str(x) for series in panel.series for x in series.x) if named else {}
    return {name: float(place) for place, name in enumerate(names)}


def _label(axes: Axes, panel: Panel, categories: list[str]) -> None:
    axes.set_title("\n".join(textwrap.wrap(panel.title, 56)))
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    balls = any(series.style == "balls" for series in panel.series)
    axes.margins(*((0.15, 0.2) if balls else (0.06, 0.05)))
    if panel.yzero:
        axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    if panel.ylog:
        axes.set_yscale("log")
    if categories:
        _name_categories(axes, categories)
    elif panel.xlog:
        _log_axis(axes, sorted({float(x) for series in panel.series for x in series.x}))
    elif all(float(x).is_integer() for series in panel.series for x in series.x):
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(True, which="major", axis="y" if categories else "both", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _name_categories(axes: Axes, categories: list[str]) -> None:
    """Names side by side, in several lines where that makes them fit, slanted where it does not."""
    room = _LETTERS // len(categories)
    wrapped = [textwrap.wrap(name, max(room, 4), break_long_words=False) or [""] for name in categories]
    fits = all(len(lines) <= 3 and max(map(len, lines)) <= room for lines in wrapped)
    axes.set_xticks(range(len(categories)))
    if fits:
        axes.set_xticklabels(["\n".join(lines) for lines in wrapped])
    else:
        axes.set_xticklabels(categories, rotation=40, ha="right", rotation_mode="anchor")


def _log_axis(axes: Axes, values: list[float]) -> None:
    """A log axis; a few values are its ticks, since powers of ten say little about 16, 32, 64."""
    axes.set_xscale("log")
    apart = all(b / a > 1.3 for a, b in itertools.pairwise(values) if a > 0)
    if len(values) <= 8 and apart and values[0] > 0:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_points(axes: Axes, series: Series, positions: list[float], index: int) -> None:
    line = {"line": "-", "dashed": "--", "points": ""}[series.style]
    marker = "" if series.style == "dashed" and len(positions) > 1 else _MARKERS[index % len(_MARKERS)]
    axes.errorbar(
        positions,
        _finite(series.y),
        yerr=series.error,
        linestyle=line,
        marker=marker,
        markersize=4.5,
        capsize=2,
        color=_COLOURS[index % len(_COLOURS)],
        label=series.label,
    )


def _draw_bars(axes: Axes, series: Series, places: list[float], index: int, place: int, count: int) -> None:
    """Bars of several series stand side by side at each category; a cross where there is nothing finite to draw."""
    width = 0.8 / count
    positions = [n + width * (place - (count - 1) / 2) for n in places]
    heights, colour = _finite(series.y), _COLOURS[index % len(_COLOURS)]
    axes.bar(
        positions,
        heights,
        width,
        yerr=series.error,
        capsize=2,
        color=colour,
        hatch=_HATCHES[index % len(_HATCHES)],
        edgecolor="white",
        label=series.label,
    )
    for position, height in zip(positions, heights, strict=True):
        if math.isnan(height):
            axes.text(position, 0.0, "×", color=colour, size=13, ha="center", transform=axes.get_xaxis_transform())


def _draw_balls(axes: Axes, series: Series, positions: list[float], index: int, largest: float) -> None:
    """Areas in proportion to sizes; `largest` is that of all balls of the panel."""
    assert series.size is not None, "balls need sizes"
    axes.scatter(
        positions,
        _finite(series.y),
        s=[_LARGEST_BALL * size / largest for size in series.size],
        alpha=0.65,
        color=_COLOURS[index % len(_COLOURS)],
        edgecolors="black",
        label=series.label,
    )


def _finite(values: Sequence[float]) -> list[float]:
    """What cannot be drawn is NaN, which matplotlib leaves out."""
    return [value if value is not None and math.isfinite(value) else math.nan for value in values]


def _legend_columns(panel: Panel) -> int:
    """As many as fit, where a column takes its longest label and the mark before it, and lines of equal length."""
    longest = max(len(series.label) for series in panel.series) + 7
    most = max(1, min(4, 66 // longest))
    return -(-len(panel.series) // -(-len(panel.series) // most))


def _legend_lines(panel: Panel) -> int:
    return -(-len(panel.series) // _legend_columns(panel)) if len(panel.series) > 1 else 0
