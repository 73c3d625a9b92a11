"""`halfwave data NAME`: a dataset from a real solver, in one HDF5 file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
from tyro.conf import Positional

from halfwave.commands.common import as_usage, log_console, parse_pairs, results_console
from halfwave.data import Dataset, Generator, PointDataset, build_generator, generate, open_any
from halfwave.display import progress_of
from halfwave.errors import UsageError
from halfwave.numerics import core_count
from halfwave.report import BodyPictures, FieldPictures, save_preview

_PICTURE = ".png"
_SHOWN = 3
"""Samples of a preview."""


@dataclass
class Data:
    """Make a dataset with a real solver; the same command resumes."""

    name: Positional[str]
    """darcy, darcy-smooth, poisson, navier-stokes, shallow-water, car, ahmed; in time burgers, kuramoto-sivashinsky,
    heat, advection, navier-stokes-time."""
    out: Path | None = None
    """File to write, with a preview beside it (.png); by default data/NAME-RESOLUTION.h5."""
    n_train: int = 1000
    """Training samples."""
    n_test: int = 200
    """Test samples."""
    resolution: int | None = None
    """Points a side (of a body: in all); by default the paper's."""
    seed: int = 0
    """Sample i depends on the seed and i alone."""
    workers: int = core_count()
    """Processes; any number gives the same file."""
    parameters: tuple[str, ...] = ()
    """Further parameters of the problem as KEY=VALUE, such as dim=3."""
    force: bool = False
    """Overwrite a file that holds something else."""

    @classmethod
    def known(cls, call: Data | None) -> dict[str, Any]:
        """Size and place of the dataset that is named."""
        if call is None:
            return {}
        given = parse_pairs(call.parameters, "--parameters")
        generator = build_generator(call.name, resolution=call.resolution, **given)
        resolution = getattr(generator, "resolution", getattr(generator, "points", None))
        own = {
            f.name: getattr(generator, f.name)
            for f in fields(cast(Any, generator))
            if f.name not in ("resolution", "points")
        }
        return {"out": default_path(generator), "resolution": resolution, "parameters": own}

    def run(self) -> None:
        given = parse_pairs(self.parameters, "--parameters")
        generator = as_usage(lambda: build_generator(self.name, resolution=self.resolution, **given))
        out = self.out or default_path(generator)
        if out.suffix == _PICTURE:
            raise UsageError(f"--out is {out}: expected another ending, as the preview of NAME.h5 is NAME{_PICTURE}")
        make_dataset(generator, out, self.n_train, self.n_test, self.seed, self.workers, self.force)
        picture = save_preview(preview_of(open_any(out)), out.with_suffix(_PICTURE))
        results_console().print(
            f"{out}: {self.n_train} train and {self.n_test} test samples; preview: {picture}", soft_wrap=True
        )


def default_path(generator: Generator) -> Path:
    """data/NAME-RESOLUTION.h5 (with the dimension where it is not 2)."""
    resolution = getattr(generator, "resolution", getattr(generator, "points", None))
    dim = getattr(generator, "dim", 2)
    parts = [generator.name, *([f"{dim}d"] if dim != 2 else []), *([str(resolution)] if resolution else [])]
    return Path("data") / ("-".join(parts) + ".h5")


def make_dataset(
    generator: Generator, out: Path, n_train: int, n_test: int, seed: int, workers: int, force: bool = False
) -> Path:
    """`generate` under a progress bar on standard error."""
    with progress_of(f"{generator.name} -> {out}", log_console()) as progress:
        return generate(
            generator,
            out,
            n_train=n_train,
            n_test=n_test,
            seed=seed,
            workers=workers,
            progress=progress,
            force=force,
        )


def preview_of(dataset: Dataset | PointDataset) -> FieldPictures | BodyPictures:
    """The first samples of a dataset's train split, to be drawn."""
    metadata, shown = dataset.metadata, range(min(_SHOWN, dataset.n_train))
    name = metadata.get("name") or metadata.get("format") or dataset.path.name
    counts = f"{name}: {dataset.n_train} train, {dataset.n_test} test"
    if isinstance(dataset, PointDataset):
        bodies = [dataset.train[i] for i in shown]
        values = [(body.points.numpy(), body.pressure.numpy()) for body in bodies]
        return BodyPictures(f"{counts}, {len(values[0][0]):,} points", values, metadata.get("resolution", ()))
    known = metadata.get("channels", ())
    inputs = [f"input{channel}" for channel in _channel_names(known, dataset.in_channels)]
    outputs = [f"output{channel}" for channel in _channel_names(known, dataset.out_channels)]
    fields = [np.concatenate([field.numpy() for field in dataset.train[i]]) for i in shown]
    title = f"{counts}, {' x '.join(map(str, dataset.grid))}"
    return FieldPictures(title, inputs, outputs, fields, is_map=dataset.domain.plot == "map")


def _channel_names(known: Sequence[str], count: int) -> list[str]:
    if len(known) == count:
        return [f": {name}" for name in known]
    return [""] if count == 1 else [f" {i}" for i in range(count)]
