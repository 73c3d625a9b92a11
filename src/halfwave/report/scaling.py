"""Scaling as planned, as a picture: time and bytes of a device over the number of devices, from one file of plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfwave.files import read_json, written_aside

_KINDS = {"strong": "one grid", "weak": "a grid that grows"}


def draw_scaling(result: str | Path, picture: str | Path) -> Path:
    """Write `picture` from the file that `benchmarks/planned_scaling.py` writes."""
    values = read_json(result)
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, (kind, title) in zip(panels, _KINDS.items(), strict=False):
        _draw_time(axes, values[kind], f"{kind} scaling: {title}")
    _draw_bytes(panels[2], values["here"])
    path = Path(picture)
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)
    return path


def _draw_time(axes: Axes, plans: list[dict[str, Any]], title: str) -> None:
    devices = [plan["devices"] for plan in plans]
    for key, color in (("compute_seconds", "C0"), ("network_seconds", "C3")):
        shown = [(n, plan[key]) for n, plan in zip(devices, plans, strict=True) if plan[key] > 0]
        label = f"{key.removesuffix('_seconds')}, planned"
        axes.plot([n for n, _ in shown], [s for _, s in shown], label=label, color=color, marker=".")
    axes.set(xlabel="devices", ylabel="seconds a step", title=title)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend()


def _draw_bytes(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Lines are plans, crosses are what real processes held and sent."""
    devices = [row["processes"] for row in rows]
    for key, color in (("peak_bytes", "C0"), ("sent_bytes", "C3")):
        name = key.replace("_", " ")
        for source, style in (("planned", "-"), ("counted", "x")):
            shown = [(n, row[source][key] / 1e6) for n, row in zip(devices, rows, strict=True) if row[source][key]]
            points = [n for n, _ in shown], [v for _, v in shown]
            axes.plot(*points, style, color=color, label=f"{name}, {source}")
    axes.set(xlabel="processes on this machine", ylabel="MB of a process", title="planned and counted")
    axes.set_yscale("log")
    axes.set_xticks(devices)
    axes.legend()
