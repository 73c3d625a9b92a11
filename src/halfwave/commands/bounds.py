"""`halfwave bounds`: discretization and precision bounds of a coefficient, of a dataset's fields, of a trained run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from halfwave.commands.bounds_data import measure_data
from halfwave.commands.bounds_run import certify_run
from halfwave.commands.bounds_theory import Question, describe, sweep
from halfwave.commands.common import ReadingOptions, as_usage, log_console
from halfwave.data import Dataset, PointDataset, open_dataset
from halfwave.errors import InputError, UsageError, printable
from halfwave.files import write_json
from halfwave.precision import Policy
from halfwave.report import draw_bounds, is_result

DATA_SAMPLES, RUN_SAMPLES = 4, 20
_OF_A_COEFFICIENT = (
    "grid", "dim", "format", "frequency", "sup", "lipschitz", "variation", "periodic", "algorithm",
)  # fmt: skip


@dataclass
class Bounds(ReadingOptions):
    """What the grid and what the number format can cost a coefficient."""

    grid: tuple[int, ...] = ()
    """Points a side: one number, or one for each axis."""
    dim: int | None = None
    """Axes; by default those of --grid, --frequency or 2."""
    format: str = "fp16"
    """fp16, bf16, bf16x2, bf16x3, tf32, fp32, fp8_e4m3, fp8_e5m2, fp64."""
    frequency: tuple[int, ...] = (1,)
    """Integers, one for each axis; a single one is along the first."""
    sup: float | None = None
    """M with |v| <= M."""
    lipschitz: tuple[float, ...] = ()
    """Lipschitz constant of v, or one for each axis."""
    variation: tuple[float, ...] = ()
    """Largest variation along lines, or one for each axis: v may jump."""
    periodic: bool = False
    """v has no jump or kink at the boundary of its cell."""
    algorithm: str = "inputs"
    """What is rounded: inputs, gemm or fft."""
    data: Path | None = None
    """Measure both errors on the test fields of a dataset."""
    run_path: Path | None = field(default=None, metadata={"option": "run"})
    """Certify a trained run on its test split, or on --data."""
    precision: str | None = None
    """Policy that --run certifies: full, amp, half, mixed; by default mixed."""
    dtype: str | None = None
    """What half means for --run; by default what is fast here."""
    samples: int | None = None
    """Test samples to look at; by default 4 of --data, 20 of --run."""
    alpha: float = 0.1
    """How often a new input may exceed what --run says of new inputs."""
    plot: Path | None = None
    """Draw errors over resolution: a PNG, and its numbers beside it (.json). By default certificate.png in --run."""
    json: bool = False
    """Print one JSON object instead of words."""

    def run(self) -> None:
        self._check()
        if self.run_path is not None:
            result, text = self._certificate(self.run_path)
        elif self.data is not None:
            result, text = self._measured(self.data)
        else:
            question = self._question(None)
            result, text = as_usage(lambda: describe(question))
            if self.plot is not None:
                result["rows"] = sweep(question)
        plot = self.plot or self._own_plot(result)
        if plot is not None:
            self._draw(plot, result)
        print(json.dumps(result) if self.json else printable(text))

    def _check(self) -> None:
        if self.samples is not None and self.samples < 1:
            raise UsageError(f"--samples must be at least 1, got {self.samples}")
        if self.plot is not None:
            _check_plot(self.plot)
        if not 0 < self.alpha < 1:
            raise UsageError(f"--alpha must be between 0 and 1, got {self.alpha}")
        given = {f.name for f in fields(self) if getattr(self, f.name) != f.default}
        reads = self.run_path is not None or self.data is not None
        for names, allowed, where in (
            (("x_key", "y_key", "channel_axis", "domain"), reads, "belongs to --data and --run"),
            (("precision", "dtype", "alpha"), self.run_path is not None, "belongs to --run"),
            (("samples",), self.run_path is not None or self.data is not None, "belongs to --data and --run"),
            (_OF_A_COEFFICIENT, self.run_path is None, "is for one coefficient: --run certifies a whole model"),
        ):
            unused = [name for name in names if name in given]
            if unused and not allowed:
                raise UsageError(f"--{unused[0]} {where}")

    def _question(self, axes: int | None) -> Question:
        return as_usage(
            lambda: Question.read(
                grid=self.grid,
                dim=self.dim if axes is None else axes,
                format=self.format,
                frequency=self.frequency,
                sup=self.sup,
                lipschitz=self.lipschitz,
                variation=self.variation,
                periodic=self.periodic,
                algorithm=self.algorithm,
                from_data=axes is not None,
            )
        )

    def _measured(self, path: Path) -> tuple[dict[str, Any], str]:
        dataset = open_dataset(path, self.read_options())
        self._say(dataset)
        return measure_data(self._question(self._file_axes(dataset)), dataset, self.samples or DATA_SAMPLES)

    def _say(self, dataset: Dataset | PointDataset) -> None:
        if not self.json:
            log_console().print(dataset.understood(), soft_wrap=True)

    def _file_axes(self, dataset: Dataset) -> int:
        axes = len(dataset.test.grid)
        if self.grid or self.dim not in (None, axes):
            raise UsageError(f"--data has a grid of its own, with {axes} axes: leave --grid and --dim out")
        if self.sup is not None and not (self.lipschitz or self.variation):
            raise UsageError("--sup with --data needs --lipschitz or --variation: else the data's own values are used")
        return axes

    def _certificate(self, path: Path) -> tuple[dict[str, Any], str]:
        policy = as_usage(lambda: Policy.named(self.precision or "mixed", dtype=self.dtype))
        dataset, certificate = certify_run(path, self.data, self, policy, self.samples or RUN_SAMPLES, self.alpha)
        source = dataset.path
        self._say(dataset)
        result = {"kind": "certificate", "data": str(source), **certificate.to_dict()}
        if self.plot is not None and not result["rows"]:
            raise InputError(f"--plot has nothing to draw: {certificate.no_crossover}")
        return result, f"{path} on {source}\n{certificate}"

    def _own_plot(self, result: dict[str, Any]) -> Path | None:
        """A run's certificate draws m* into the run, where there is one to draw."""
        if self.run_path is None or not self.run_path.is_dir() or not result["rows"]:
            return None
        return self.run_path / "certificate.png"

    def _draw(self, target: Path, result: dict[str, Any]) -> None:
        """The numbers beside the picture, then the picture from the numbers."""
        source = target.with_suffix(".json")
        write_json(source, result)
        draw_bounds(source, target)
        log_console().print(f"{target}, numbers in {source}", soft_wrap=True)


def _check_plot(plot: Path) -> None:
    if plot.suffix.lower() != ".png":
        raise UsageError(f"--plot writes a PNG: expected a name that ends in .png, got {plot}")
    numbers = plot.with_suffix(".json")
    if numbers.exists() and not is_result(numbers):
        raise InputError(f"cannot write {numbers}, the numbers of --plot {plot}: it holds something else")
