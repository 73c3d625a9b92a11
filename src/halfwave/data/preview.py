"""A picture of a few samples, so that one look tells what a dataset is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

from halfwave.data.dataset import Dataset
from halfwave.data.opening import open_any
from halfwave.data.point_dataset import PointDataset, PointSample
from halfwave.errors import InputError
from halfwave.files import written_aside

_COLOURS = "RdBu_r"
_ELEVATION = 18


def save_preview(data: str | Path | Dataset | PointDataset, picture: str | Path, samples: int = 3) -> Path:
    """Draw the first `samples` of the train split of a dataset (or of its file) into a PNG file."""
    picture = Path(picture)
    if samples < 1:
        raise InputError(f"samples is {samples}; at least 1 is needed")
    dataset = open_any(data) if isinstance(data, (str, Path)) else data
    count = min(samples, dataset.n_train)
    figure = _draw_clouds(dataset, count) if isinstance(dataset, PointDataset) else _draw_fields(dataset, count)
    FigureCanvasAgg(figure)
    with written_aside(picture) as aside:
        figure.savefig(aside, format="png", dpi=110)
    return picture


def _draw_fields(dataset: Dataset, count: int) -> Figure:
    """Inputs and outputs of one sample side by side; below each other when there are several channels."""
    inputs, outputs = (
        [f"{side}{name}" for name in _channel_names(dataset, channels)]
        for side, channels in (("input", dataset.in_channels), ("output", dataset.out_channels))
    )
    rows = [inputs + outputs] if len(inputs) + len(outputs) <= 4 else [inputs, outputs]
    columns = max(map(len, rows))
    is_map = dataset.domain.plot == "map"
    wide = 1.9 if is_map else 1.0
    figure = Figure(figsize=(3.1 * wide * columns, 2.7 * count * len(rows) + 0.5), layout="constrained")
    axes = figure.subplots(count * len(rows), columns, squeeze=False)
    for sample in range(count):
        fields = iter(np.concatenate([field.numpy() for field in dataset.train[sample]]))
        for row, names in enumerate(rows, start=sample * len(rows)):
            for ax, name in zip(axes[row], names, strict=False):
                _draw_field(figure, ax, next(fields), is_map)
                ax.set_title(name, fontsize=10)
            for ax in axes[row, len(names) :]:
                ax.set_axis_off()
    figure.suptitle(_title(dataset), fontsize=11)
    return figure


def _channel_names(dataset: Dataset, count: int) -> list[str]:
    known = dataset.metadata.get("channels", [])
    if len(known) == count:
        return [f": {name}" for name in known]
    return [""] if count == 1 else [f" {i}" for i in range(count)]


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


def _draw_clouds(dataset: PointDataset, count: int) -> Figure:
    """One row a sample: the pressure seen from the front and from behind."""
    figure = Figure(figsize=(10, 2.4 * count + 0.4))
    share = 0.94 / count
    for row in range(count):
        sample, bottom = dataset.train[row], 0.94 - share * (row + 1)
        stagnation = max(float(sample.pressure.max()), 0.0) or float(sample.pressure.abs().max()) or 1.0
        norm = TwoSlopeNorm(0.0, -2 * stagnation, stagnation)
        for column, (name, azimuth) in enumerate((("front", -140), ("rear", -40))):
            ax = figure.add_axes((0.45 * column, bottom, 0.45, share), projection="3d")
            _draw_cloud(ax, sample, norm, azimuth, dataset.metadata.get("resolution", []))
            ax.text2D(0.5, 0.93, f"from the {name}", transform=ax.transAxes, ha="center", fontsize=9)  # type: ignore[attr-defined]
        bar = figure.add_axes((0.895, bottom + 0.15 * share, 0.015, 0.7 * share))
        figure.colorbar(ScalarMappable(norm, _COLOURS), cax=bar, extend="min", label="pressure (Pa)")
    figure.suptitle(_title(dataset), fontsize=11)
    return figure


def _draw_cloud(ax: Any, sample: PointSample, norm: TwoSlopeNorm, azimuth: int, rings: list[int]) -> None:
    points, pressure = sample.points.numpy(), sample.pressure.numpy()
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


def _title(dataset: Dataset | PointDataset) -> str:
    metadata = dataset.metadata
    name = metadata.get("name") or metadata.get("format") or dataset.path.name
    if isinstance(dataset, PointDataset):
        what = f"{len(dataset.train[0].points):,} points"
    else:
        what = " x ".join(map(str, dataset.grid))
    return f"{name}: {dataset.n_train} train, {dataset.n_test} test, {what}"
