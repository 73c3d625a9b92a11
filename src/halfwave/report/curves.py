"""Learning curves of a run as a picture, from its metrics.csv alone."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfwave.errors import drawable
from halfwave.files import read_csv, written_aside

_LINES = (("train_loss", "train loss", "0.4"), ("test_l2", "test L2", "C0"), ("test_h1", "test H1", "C3"))
_SHADES = ("0.93", "1.0")


def draw_curves(run_dir: str | Path) -> Path:
    """Write ``curves.png`` into a run directory: losses and errors by epoch, the precision policies as bands."""
    rows = read_csv(Path(run_dir) / "metrics.csv")
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for column, label, color in _LINES:
        points = [(row["epoch"], row[column]) for row in rows if row[column] is not None]
        axes.plot([e for e, _ in points], [v for _, v in points], label=label, color=color, marker=".", markersize=4)
    _draw_policies(axes, rows)
    axes.set(xlabel="epoch", ylabel="relative error", yscale="log", title=drawable(Path(run_dir).name))
    axes.legend()
    path = Path(run_dir) / "curves.png"
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)
    return path


def _draw_policies(axes: Axes, rows: list[dict[str, Any]]) -> None:
    def policy(row: dict[str, Any]) -> str:
        return str(row["policy"])

    for i, (name, group) in enumerate(groupby(rows, policy)):
        epochs = [row["epoch"] for row in group]
        axes.axvspan(epochs[0] - 0.5, epochs[-1] + 0.5, color=_SHADES[i % 2], zorder=0)
        axes.text(epochs[0] - 0.4, 1.0, name, transform=axes.get_xaxis_transform(), va="top", fontsize=8)
