"""Where an exported model comes from: an object in memory, or a run with its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from halfwave.data import PointDataset
from halfwave.errors import InputError
from halfwave.export.shapes import Shapes
from halfwave.training import AnyDataset, load, open_data, read_config

_SAMPLES = 4


@dataclass(frozen=True)
class Source:
    """A model with the grid it is exported for, and real inputs where they are known."""

    model: nn.Module
    grid: tuple[int, ...] | None
    samples: Tensor | None

    def samples_on(self, shapes: Shapes) -> Tensor | None:
        """The samples, where a program of these shapes takes them."""
        if self.samples is None:
            return None
        fits = shapes.free_grid or tuple(self.samples.shape[2:]) == shapes.grid
        return self.samples if fits else None


def read_source(
    model_or_run: nn.Module | str | Path, grid: Sequence[int] | None = None, samples: Tensor | None = None
) -> Source:
    """The model itself, or that of a run directory or a model file."""
    if isinstance(model_or_run, nn.Module):
        return Source(model_or_run, None if grid is None else tuple(grid), samples)
    path = Path(model_or_run)
    model = load(find_model(path))
    dataset = run_data(path) if path.is_dir() and samples is None else None
    if isinstance(dataset, PointDataset) or dataset is None:
        return Source(model, None if grid is None else tuple(grid), samples)
    found = dataset.test[:_SAMPLES][0]
    return Source(model, tuple(found.shape[2:]) if grid is None else tuple(grid), found)


def find_model(path: Path) -> Path:
    """The model of a run directory, or the file itself."""
    found = path / "model.safetensors" if path.is_dir() else path
    if not found.exists():
        raise InputError(f"{found} does not exist: expected a run directory that is finished, or a model file")
    return found


def run_data(run: Path) -> AnyDataset | None:
    """The data of a run, read as in the run; None where they are no longer there."""
    try:
        return open_data(read_config(run / "config.json"))
    except InputError:
        return None
