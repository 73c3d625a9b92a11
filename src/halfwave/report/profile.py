"""Where a training step's time and memory go, as a picture: from the result file of `halfwave profile` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfwave.errors import drawable
from halfwave.files import read_json, written_aside

# Okabe and Ito's colours, told apart by every kind of colour vision.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "0.75"
_PHASES = {"forward": "#56B4E9", "backward": "#E69F00", "update": "#009E73"}
_LARGEST = 10


def draw_profile(source: str | Path, target: str | Path) -> None:
    """Write the figure `target` (PNG) of the result file `source`: parts, modules, kernels, and live bytes."""
    result = read_json(source)
    figure = Figure(figsize=(10, 8.5), layout="constrained")
    panels = figure.subplot_mosaic([["parts", "kernels"], ["modules", "modules"], ["memory", "memory"]])
    _bars(panels["parts"], [row for row in result["parts"] if row["share"] > 0], "by part", _BLUE)
    _bars(panels["kernels"], result["kernels"][:_LARGEST], f"by kernel, the {_LARGEST} largest", _ORANGE)
    _modules(panels["modules"], result["modules"][: 2 * _LARGEST])
    _memory(panels["memory"], result["memory"])
    grid = "x".join(map(str, result["grid"]))
    title = (
        f"{result['recipe']}: one training step of {result['model']}, {grid}, batch {result['batch']}, "
        f"{result['policy']['name']} ({result['policy']['contraction']}), {result['device']}"
    )
    figure.suptitle(drawable(title), fontsize=11)
    with written_aside(target) as aside:
        figure.savefig(aside, format="png", dpi=120)


def _bars(axes: Axes, rows: list[dict[str, Any]], title: str, colour: str) -> None:
    names = [row["name"].removeprefix("aten::")[:34] for row in rows]
    shares = [100 * row["share"] for row in rows]
    bars = axes.barh(range(len(rows)), shares, color=colour)
    axes.bar_label(bars, labels=[f"{share:.1f}%" for share in shares], padding=3, fontsize=8)
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * max([1.0, *shares]))
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("% of the step", fontsize=8)


def _modules(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Forward and backward of each module, stacked."""
    places = range(len(rows))
    forward, backward = ([1e3 * row[key] for row in rows] for key in ("forward", "backward"))
    axes.bar(places, forward, color=_PHASES["forward"], label="forward")
    axes.bar(places, backward, bottom=forward, color=_PHASES["backward"], label="backward")
    axes.set_xticks(places, [row["name"] for row in rows], rotation=35, ha="right", fontsize=8)
    axes.set_ylabel("ms", fontsize=8)
    axes.set_title("by module, without the modules inside it", fontsize=10)
    axes.legend(fontsize=8, frameon=False)


def _memory(axes: Axes, memory: dict[str, Any]) -> None:
    """Live bytes in the order of allocations and frees, the phases behind them."""
    curve = [value / 1e6 for value in memory["live_bytes"]]
    width = memory["events"] / max(1, len(curve))
    axes.step([i * width for i in range(len(curve))], curve, where="post", color="black", linewidth=1.2)
    starts = [(phase["name"], phase["start"] * memory["events"]) for phase in memory["phases"]]
    ends = [start for _, start in starts[1:]] + [memory["events"]]
    for (name, start), end in zip(starts, ends, strict=True):
        axes.axvspan(start, end, color=_PHASES[name], alpha=0.25, linewidth=0, label=name)
    axes.axhline(memory["held_bytes"] / 1e6, color=_GREY, linestyle="--", label="weights, optimizer state, batch")
    peak = memory["peak_bytes"] / 1e6
    axes.set(xlim=(0, memory["events"]), ylim=(0, 1.15 * peak))
    axes.annotate(f"peak {peak:.4g} MB", (curve.index(max(curve)) * width, peak), (0, 4), textcoords="offset points",
                  ha="center", fontsize=8)  # fmt: skip
    axes.set_xlabel("allocations and frees, in order", fontsize=8)
    axes.set_ylabel("live MB", fontsize=8)
    axes.set_title("memory: sum of live tensor storages", fontsize=10)
    axes.legend(fontsize=8, frameon=False, loc="lower right", ncols=4)
