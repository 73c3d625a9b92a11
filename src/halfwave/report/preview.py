"""A picture of a few samples, so that one look tells what a dataset is. It is handed arrays and draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

from halfwave.errors import drawable
from halfwave.files import written_aside

_COLOURS = "RdBu_r"
_ELEVATION = 18


@dataclass(frozen=True)
class FieldPictures:
    """Fields on a grid: each of `values` is one sample, its channels (C + O, *grid), the inputs first."""

    title: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    """Names of the channels."""
    values: Sequence[np.ndarray]
    is_map: bool = False
    """Whether they are drawn as a map, north up."""

    def draw(self) -> Figure:
        """Inputs and outputs of one sample side by side; below each other when there are several channels."""
        inputs, outputs = list(self.inputs), list(self.outputs)
        rows = [inputs + outputs] if len(inputs) + len(outputs) <= 4 else [inputs, outputs]
        columns, count = max(map(len, rows)), len(self.values)
        wide = 1.9 if self.is_map else 1.0
        figure = Figure(figsize=(3.1 * wide * columns, 2.7 * count * len(rows) + 0.5), layout="constrained")
        axes = figure.subplots(count * len(rows), columns, squeeze=False)
        for sample, values in enumerate(self.values):
            fields = iter(values)
            for row, names in enumerate(rows, start=sample * len(rows)):
                for ax, name in zip(axes[row], names, strict=False):
                    _draw_field(figure, ax, next(fields), self.is_map)
                    ax.set_title(drawable(name), fontsize=10)
                for ax in axes[row, len(names) :]:
                    ax.set_axis_off()
        figure.suptitle(drawable(self.title), fontsize=11)
        return figure


@dataclass(frozen=True)
class BodyPictures:
    """Pressure on bodies: each of `values` is one of them, its points (n, 3) and the pressure there (n,)."""

    title: str
    values: Sequence[tuple[np.ndarray, np.ndarray]]
    rings: Sequence[int] = ()
    """Rings and segments of the points, where they lie so, between two poles."""

    def draw(self) -> Figure:
        """One row a sample: the pressure seen from the front and from behind."""
        figure = Figure(figsize=(10, 2.4 * len(self.values) + 0.4))
        share = 0.94 / len(self.values)
        for row, (points, pressure) in enumerate(self.values):
            bottom = 0.94 - share * (row + 1)
            stagnation = max(float(pressure.max()), 0.0) or float(np.abs(pressure).max()) or 1.0
            norm = TwoSlopeNorm(0.0, -2 * stagnation, stagnation)
            for column, (name, azimuth) in enumerate((("front", -140), ("rear", -40))):
                ax: Any = figure.add_axes((0.45 * column, bottom, 0.45, share), projection="3d")
                _draw_cloud(ax, points, pressure, norm, azimuth, self.rings)
                ax.text2D(0.5, 0.93, f"from the {name}", transform=ax.transAxes, ha="center", fontsize=9)
            bar = figure.add_axes((0.895, bottom + 0.15 * share, 0.015, 0.7 * share))
            figure.colorbar(ScalarMappable(norm, _COLOURS), cax=bar, extend="min", label="pressure (Pa)")
        figure.suptitle(drawable(self.title), fontsize=11)
        return figure


def save_preview(samples: FieldPictures | BodyPictures, picture: str | Path) -> Path:
    """Draw samples into a PNG file."""
    drawn = BytesIO()
    samples.draw().savefig(drawn, format="png", dpi=110)
    with written_aside(picture) as aside:  # only for as long as writing takes: a kill while drawing leaves nothing
        aside.write_bytes(drawn.getvalue())
    return Path(picture)


def _draw_field(figure: Figure, ax: Axes, values: np.ndarray, is_map: bool) -> None:
    if values.ndim == 1:
        ax.plot(np.linspace(0, 1, len(values)), values)
        return
    if values.ndim == 3:
        values = values[:, :, values.shape[2] // 2]  # the middle slice
    # A field on the sphere is drawn as a map, north up; any other with x to the right and y upwards.
    shown = values if is_map else values.T
    limit = float(np.abs(shown).max()) or 1.0
    signed = shown.min() < -0.05 * limit
    colours = {"cmap": _COLOURS, "vmin": -limit, "vmax": limit} if signed else {"cmap": "viridis"}
    image = ax.imshow(shown, origin="upper" if is_map else "lower", **colours)
    ax.set_xticks([])
    ax.set_yticks([])
    figure.colorbar(image, ax=ax, shrink=0.85)


def _draw_cloud(
    ax: Any, points: np.ndarray, pressure: np.ndarray, norm: TwoSlopeNorm, azimuth: int, rings: Sequence[int]
) -> None:
    ax.view_init(elev=_ELEVATION, azim=azimuth)
    if len(rings) == 2 and rings[0] * rings[1] + 2 == len(points):
        _draw_surface(ax, *_coarsen(points, pressure, *rings), norm)
    else:
        ax.scatter(*points.T, c=pressure, s=2, cmap=_COLOURS, norm=norm, linewidths=0)
    low, high = points.min(axis=0), points.max(axis=0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    ax.set_box_aspect(high - low, zoom=1.55)
    ax.set_axis_off()


def _draw_surface(ax: Any, points: np.ndarray, pressure: np.ndarray, norm: TwoSlopeNorm) -> None:
    """The quadrangles between neighbouring rings (rings x segments points, the last next to the first) that face us."""
    count = len(points) - 1
    corners = [np.roll(points, -i, axis=1)[j : j + count] for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
    means = np.mean([np.roll(pressure, -i, axis=1)[j : j + count] for i in (0, 1) for j in (0, 1)], axis=0)
    faces = np.stack(corners, axis=2).reshape(-1, 4, 3)
    outwards = np.cross(faces[:, 2] - faces[:, 0], faces[:, 3] - faces[:, 1])
    seen = outwards @ _towards_viewer(ax.azim) > 0
    colours = ScalarMappable(norm, _COLOURS).to_rgba(means.ravel()[seen])
    surface = Poly3DCollection(faces[seen], facecolors=colours, edgecolors=colours, linewidths=0.2)
    surface.set_clip_on(False)  # the axes are square, the body is long
    ax.add_collection3d(surface)


def _towards_viewer(azimuth: float) -> np.ndarray:
    around, up = np.radians(azimuth), np.radians(_ELEVATION)
    return np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])


def _coarsen(points: np.ndarray, pressure: np.ndarray, rings: int, segments: int) -> tuple[np.ndarray, np.ndarray]:
    """At most some 60 rings and segments of a body, its two poles as rings of their own."""
    every = [np.unique(np.linspace(0, n - 1, min(n, 64)).round().astype(int)) for n in (rings, segments)]
    picked = 1 + every[0][:, None] * segments + every[1]
    ends = [np.full((1, len(every[1])), pole) for pole in (0, len(points) - 1)]
    numbers = np.concatenate([ends[0], picked, ends[1]])
    return points[numbers], pressure[numbers]
