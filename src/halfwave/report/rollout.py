"""A rollout as a picture and as an animation, from its rollout.json and rollout.npz alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfwave.errors import InputError, drawable
from halfwave.files import read_json, written_aside

_FRAMES = 80
"""Of an animation: more steps are thinned out."""
_SHOWN = 4
"""Steps of which a plane is drawn."""


def draw_rollout(folder: Path, target: Path) -> Path:
    """Errors with quantiles, correlation, spectra, half against full, and the first trajectory's states."""
    result = read_json(folder / "rollout.json")
    truth, prediction = _states(folder)
    panels: list[Callable[[Axes], None]] = [
        lambda axes: _draw_errors(axes, result),
        lambda axes: _draw_correlation(axes, result),
    ]
    if result["spectra"]:
        panels += [lambda axes: _draw_spectra(axes, result["spectra"], "energy")]
        panels += [lambda axes: _draw_spectra(axes, result["spectra"], "enstrophy")]
    if result.get("parting"):
        panels.append(lambda axes: _draw_parting(axes, result["parting"]))
    figure = Figure(figsize=(4.1 * len(panels), 7.4), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    upper, lower = halves
    for axes, panel in zip(upper.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        panel(axes)
    _draw_states(lower, truth, prediction, result["interval"])
    figure.suptitle(drawable(result["title"]), fontsize=11)
    with written_aside(target) as aside:
        figure.savefig(aside, format="png", dpi=110)
    return target


def animate_rollout(folder: Path, target: Path) -> Path:
    """Truth, prediction and error of the first trajectory, step by step: a .gif, or an .html page with controls."""
    truth, prediction = _states(folder)
    interval = read_json(folder / "rollout.json")["interval"]
    steps = np.unique(np.linspace(0, len(truth) - 1, min(len(truth), _FRAMES)).astype(int))
    is_line = truth.ndim == 2
    figure = Figure(figsize=(6.4, 4.2) if is_line else (9, 3.3), layout="constrained")
    update = _line_frames(figure, truth, prediction) if is_line else _plane_frames(figure, truth, prediction)

    def show(step: int) -> list[Any]:
        figure.suptitle(f"step {step + 1}, time {interval * (step + 1):.3g}")
        return update(int(step))

    animation = FuncAnimation(figure, show, frames=[int(step) for step in steps], interval=100, blit=False)
    with written_aside(target) as aside:
        if target.suffix == ".gif":
            with open(aside, "wb"):
                pass
            named = aside.with_name(f"{aside.name}.gif")
            animation.save(named, writer=PillowWriter(fps=10), dpi=80)
            named.replace(aside)
        elif target.suffix == ".html":
            with rc_context({"animation.embed_limit": 64}):
                aside.write_text(_page(animation.to_jshtml(fps=10), target.stem), encoding="utf-8")
        else:
            raise InputError(f"cannot write {target}: expected a name that ends in .gif or .html")
    return target


def _page(body: str, title: str) -> str:
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><body>{body}</body></html>'


def _states(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Truth and prediction, steps x grid of one or two axes: the first channel, of a volume its middle plane."""
    with np.load(folder / "rollout.npz", allow_pickle=False) as content:
        found = [content[name][:, 0] for name in ("truth", "prediction")]
    first, second = (u[:, :, :, u.shape[-1] // 2] if u.ndim == 4 else u for u in found)
    return first, second


def _times(result: dict[str, Any]) -> list[float]:
    return [result["interval"] * step for step in range(1, result["steps"] + 1)]


def _draw_errors(axes: Axes, result: dict[str, Any]) -> None:
    times, quantiles = _times(result), result["quantiles"]
    low, _, high = sorted(quantiles, key=float)
    axes.fill_between(times, quantiles[low], quantiles[high], alpha=0.25, label=f"quantiles {low} to {high}")
    axes.plot(times, result["mean_error"], label="mean")
    axes.set(xlabel="time", ylabel="relative L2 error", yscale="log", title="error over time")
    axes.legend(fontsize=8)


def _draw_correlation(axes: Axes, result: dict[str, Any]) -> None:
    axes.plot(_times(result), result["correlation"])
    axes.axhline(0.8, color="0.6", linestyle=":")
    axes.axvline(result["correlation_time"], color="C3", linestyle="--", label=f"{result['correlation_time']:.3g}")
    axes.set(xlabel="time", ylabel="correlation", title="correlation with the truth", ylim=(-0.3, 1.05))
    axes.legend(fontsize=8)


def _draw_spectra(axes: Axes, spectra: dict[str, Any], name: str) -> None:
    for color, (step, found) in enumerate(spectra["steps"].items()):
        shown = {"color": f"C{color}"}
        axes.loglog(spectra["wavenumbers"], found["truth"][name], **shown, label=f"step {step}")
        axes.loglog(spectra["wavenumbers"], found["prediction"][name], **shown, linestyle="--")
    axes.set(xlabel="wavenumber", title=f"{name} (dashed: rollout)")
    axes.legend(fontsize=8)


def _draw_parting(axes: Axes, parting: dict[str, Any]) -> None:
    times = [parting["interval"] * step for step in range(1, len(parting["differences"]) + 1)]
    axes.plot(times, parting["differences"], label=f"{parting['policy']} against full")
    axes.plot(times, parting["predicted"], linestyle="--", label=f"predicted ({parting['step_error_from']})")
    axes.plot(times, parting["own_errors"], color="0.5", label="the model's own error")
    if parting["lyapunov_time"] is not None:
        axes.axvline(parting["lyapunov_time"], color="C3", linestyle=":", label="Lyapunov time")
    axes.set(xlabel="time", ylabel="relative L2", yscale="log", title="half against full")
    axes.legend(fontsize=8)


def _draw_states(figure: Any, truth: np.ndarray, prediction: np.ndarray, interval: float) -> None:
    limit = float(np.abs(truth).max()) or 1.0
    if truth.ndim == 2:
        rows = figure.subplots(3, 1, sharex=True)
        for axes, name, values in zip(rows, _NAMES, _three(truth, prediction), strict=True):
            extent = (interval, interval * len(truth), 0, 1)
            shown = axes.imshow(
                values.T, aspect="auto", origin="lower", extent=extent, cmap="RdBu_r", vmin=-limit, vmax=limit
            )
            axes.set_ylabel(name)
        rows[-1].set_xlabel("time")
        figure.colorbar(shown, ax=list(rows), shrink=0.8)
        return
    steps = np.unique(np.linspace(0, len(truth) - 1, _SHOWN).astype(int))
    grid = figure.subplots(3, len(steps), squeeze=False)
    for column, step in enumerate(steps):
        for axes, name, values in zip(grid[:, column], _NAMES, _three(truth, prediction), strict=True):
            shown = axes.imshow(values[step].T, origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit)
            axes.set_xticks([])
            axes.set_yticks([])
            if column == 0:
                axes.set_ylabel(name)
        grid[0, column].set_title(f"time {interval * (step + 1):.3g}", fontsize=9)
    figure.colorbar(shown, ax=grid.ravel().tolist(), shrink=0.8)


_NAMES = ("truth", "rollout", "error")


def _three(truth: np.ndarray, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return truth, prediction, prediction - truth


def _line_frames(figure: Figure, truth: np.ndarray, prediction: np.ndarray) -> Callable[[int], list[Any]]:
    axes = figure.subplots()
    x = np.arange(truth.shape[1]) / truth.shape[1]
    three = _three(truth, prediction)
    lines = [axes.plot(x, values[0], label=name)[0] for name, values in zip(_NAMES, three, strict=True)]
    limit = 1.1 * float(np.abs(truth).max()) or 1.0
    axes.set(ylim=(-limit, limit), xlabel="x / length")
    axes.legend(loc="upper right", fontsize=8)

    def update(step: int) -> list[Any]:
        for line, values in zip(lines, three, strict=True):
            line.set_ydata(values[step])
        return lines

    return update


def _plane_frames(figure: Figure, truth: np.ndarray, prediction: np.ndarray) -> Callable[[int], list[Any]]:
    limit = float(np.abs(truth).max()) or 1.0
    images = []
    for axes, name, values in zip(figure.subplots(1, 3), _NAMES, _three(truth, prediction), strict=True):
        images.append(axes.imshow(values[0].T, origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit))
        axes.set_title(name, fontsize=10)
        axes.set_axis_off()

    def update(step: int) -> list[Any]:
        for image, values in zip(images, _three(truth, prediction), strict=True):
            image.set_data(values[step].T)
        return images

    return update
