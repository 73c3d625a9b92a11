"""`halfwave data NAME`: a dataset from a real solver, in one HDF5 file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from halfwave.commands.common import as_usage, log_console, parse_pairs, progress_of, results_console
from halfwave.data import GENERATORS, generate
from halfwave.data.generator import Generator
from halfwave.errors import UsageError


@dataclass
class Data:
    """Make a dataset with a real solver; the same command resumes."""

    name: Positional[str]
    """darcy, navier-stokes, shallow-water, ..."""
    out: Path | None = None
    """File to write; by default data/NAME-RESOLUTION.h5."""
    n_train: int = 1000
    """Training samples."""
    n_test: int = 200
    """Test samples."""
    resolution: int | None = None
    """Grid points a side; by default the paper's."""
    seed: int = 0
    """Sample i depends on the seed and i alone."""
    workers: int = os.cpu_count() or 1
    """Processes; any number gives the same file."""
    parameters: tuple[str, ...] = ()
    """Further parameters of the problem as KEY=VALUE, such as dim=3."""
    force: bool = False
    """Overwrite a file that holds something else."""

    def run(self) -> None:
        given = parse_pairs(self.parameters, "--parameters")
        if self.resolution is not None:
            given["resolution"] = self.resolution
        generator = build_generator(self.name, given)
        out = self.out or default_path(generator)
        make_dataset(generator, out, self.n_train, self.n_test, self.seed, self.workers, self.force)
        results_console().print(f"{out}: {self.n_train} train and {self.n_test} test samples", soft_wrap=True)


def build_generator(name: str, parameters: Mapping[str, Any]) -> Generator:
    """The generator called `name`; unknown names and parameters are usage errors."""
    if name not in GENERATORS:
        raise UsageError(f"unknown dataset {name!r}: expected one of {', '.join(GENERATORS)}")
    kind = GENERATORS[name]
    accepted = [f.name for f in fields(kind)]
    unknown = sorted(set(parameters) - set(accepted))
    if unknown:
        raise UsageError(f"{name} has no parameter {unknown[0]!r}: expected one of {', '.join(accepted)}")
    return as_usage(lambda: kind(**parameters))


def default_path(generator: Generator) -> Path:
    """data/NAME-RESOLUTION.h5 (with the dimension where it is not 2)."""
    resolution = getattr(generator, "resolution", None)
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
