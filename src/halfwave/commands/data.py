"""`halfwave data NAME`: a dataset from a real solver, in one HDF5 file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from halfwave.commands.common import as_usage, log_console, parse_pairs, progress_of, results_console
from halfwave.data import Generator, build_generator, generate
from halfwave.data.preview import save_preview
from halfwave.errors import UsageError
from halfwave.numerics import core_count

_PICTURE = ".png"


@dataclass
class Data:
    """Make a dataset with a real solver; the same command resumes."""

    name: Positional[str]
    """darcy, navier-stokes, shallow-water, car or ahmed."""
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

    def run(self) -> None:
        given = parse_pairs(self.parameters, "--parameters")
        generator = as_usage(lambda: build_generator(self.name, resolution=self.resolution, **given))
        out = self.out or default_path(generator)
        if out.suffix == _PICTURE:
            raise UsageError(f"--out is {out}: expected another ending, as the preview of NAME.h5 is NAME{_PICTURE}")
        make_dataset(generator, out, self.n_train, self.n_test, self.seed, self.workers, self.force)
        picture = save_preview(out, out.with_suffix(_PICTURE))
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
