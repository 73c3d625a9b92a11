"""m* as a picture: what the grid costs and what rounding costs over resolution, and where they cross."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator, ScalarFormatter

# Okabe and Ito's colours, told apart by every kind of colour vision.
_GRID, _ROUNDING, _CROSSING = "#0072B2", "#D55E00", "#009E73"
_FARTHEST = 64
"""The picture ends at this many times the finest grid, however far m* is."""


def draw_crossover(axes: Axes, result: dict[str, Any]) -> None:
    """Both errors with the grid's range, dashed where they are continued, and m* with its range."""
    rows = sorted(result["rows"], key=lambda row: row["side"])
    sides = [row["side"] for row in rows]
    end = _end(sides[-1], result.get("crossover"))
    _draw_grid(axes, rows, result.get("crossover"), end)
    axes.plot(sides, [row["predicted"] for row in rows], color=_ROUNDING, label="rounding, predicted")
    axes.plot(sides, [row["measured"] for row in rows], "s", color=_ROUNDING, label="rounding, measured")
    if end > sides[-1]:
        axes.plot([sides[-1], end], [rows[-1]["predicted"]] * 2, "--", color=_ROUNDING)
    if result.get("crossover"):
        _draw_crossing(axes, result["crossover"], end)
    _label(axes, result, [*sides, *_beyond(sides[-1], end)])


def _end(finest: float, crossover: dict[str, Any] | None) -> float:
    if crossover is None:
        return finest
    ends = [crossover[name] for name in ("m", "high") if crossover[name] is not None]
    return min(max([finest, *(1.15 * end for end in ends)]), _FARTHEST * finest)


def _beyond(finest: int, end: float) -> list[int]:
    return [finest * 2**k for k in range(1, 1 + math.floor(math.log2(end / finest) + 1e-9))]


def _draw_grid(axes: Axes, rows: list[dict[str, Any]], crossover: dict[str, Any] | None, end: float) -> None:
    sides, values = [row["side"] for row in rows], [row["grid_error"] for row in rows]
    lows = [row["grid_low"] for row in rows]
    # An upper end that is not known is drawn at the value.
    highs = [row["grid_high"] if row["grid_high"] is not None else row["grid_error"] for row in rows]
    smallest = min([v for v in (*values, *(row["predicted"] for row in rows)) if v and v > 0], default=1e-8)
    axes.fill_between(sides, [max(low, smallest / 10) for low in lows], highs, color=_GRID, alpha=0.2, linewidth=0)
    axes.plot(sides, values, "o-", color=_GRID, label="the grid itself (shaded: its range)")
    if crossover is not None and sides[-1] < crossover["m"] <= end:
        axes.plot([sides[-1], crossover["m"]], [values[-1], rows[-1]["predicted"]], "--", color=_GRID)


def _draw_crossing(axes: Axes, crossover: dict[str, Any], end: float) -> None:
    high = crossover["high"] if crossover["high"] is not None else end
    axes.axvspan(crossover["low"], min(high, end), color=_CROSSING, alpha=0.12, linewidth=0)
    label = f"m* = {crossover['m']:.0f} points a side (shaded: its range)"
    axes.axvline(min(crossover["m"], end), color=_CROSSING, linestyle="-", linewidth=1.5, label=label)


def _label(axes: Axes, result: dict[str, Any], sides: list[int]) -> None:
    axes.set(xscale="log", yscale="log", xlabel="points a side", ylabel="relative error of the answer")
    axes.set_xticks(sides)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    policy = result["policy"] if isinstance(result.get("policy"), dict) else {}
    axes.set_title(
        f"{result['model']} under {policy.get('name')} ({policy.get('contraction')}): left of m* the grid costs more",
        fontsize=11,
    )
    axes.grid(True, which="major", color="0.9")
