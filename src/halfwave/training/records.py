"""The record of a run, epoch by epoch and at its end: metrics.csv, TensorBoard events and summary.json.

The names of all figures stand here: the fields of `EpochMetrics` are the columns of metrics.csv, those of `RunResult`
the entries of summary.json.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from halfwave.errors import InputError
from halfwave.files import as_path, read_csv, read_json, write_csv, write_json
from halfwave.training.event_log import EventLog

Row = dict[str, Any]
"""A row of metrics.csv as it is read back."""
SUMMARY = "summary.json"


@dataclass(frozen=True)
class EpochMetrics:
    """One row of metrics.csv, written at the end of an epoch; None is an empty cell: not measured in this epoch."""

    epoch: int
    step: int
    """Updates so far."""
    phase: int
    policy: str
    train_loss: float
    test_l2: float | None
    test_h1: float | None
    learning_rate: float
    loss_scale: float | None
    skipped_steps: int
    seconds: float
    samples_per_second: float | None
    peak_memory_bytes: int | None
    activation_bytes: int | None
    allocator_peak_bytes: int | None
    zero_targets: int | None = None
    """Test samples that are left out of the errors; checkpoints of older versions have no such entry."""
    test_l2_full: float | None = None
    """Errors of the same weights evaluated in full precision; of training in full they are those above."""
    test_h1_full: float | None = None

    def __str__(self) -> str:
        """The line of a log."""
        tests = {"test l2": self.test_l2, "test h1": self.test_h1}
        if self.test_l2_full != self.test_l2:
            tests["in full l2"] = self.test_l2_full
        errors = "".join(f"  {name} {error:.4g}" for name, error in tests.items() if error is not None)
        rate = "" if self.samples_per_second is None else f"  {self.samples_per_second:.4g} samples/s"
        return (
            f"epoch {self.epoch:>3}  {self.policy:<5}  train loss {self.train_loss:.4g}{errors}"
            f"  lr {self.learning_rate:.2g}{rate}"
        )


@dataclass(frozen=True)
class RunResult:
    """Figures of a run, as its summary.json has them; `status` is finished, early (stopped) or interrupted."""

    status: str
    epochs: int
    l2: float | None
    h1: float | None
    train_loss: float | None
    samples_per_second: float | None
    peak_memory_bytes: int | None
    activation_bytes: int | None
    resolutions: dict[str, dict[str, float]]
    """Test errors {"l2", "h1"} at each of the config's test resolutions."""
    run_dir: str
    zero_targets: int = 0
    """Test samples that are left out of l2 and h1, as their target is zero."""
    l2_full: float | None = None
    """l2 and h1 of the same weights evaluated in full precision: how far the training, not its rounding, came."""
    h1_full: float | None = None

    @property
    def rows(self) -> list[Row]:
        """The rows of metrics.csv."""
        return read_metrics(self.run_dir)

    @classmethod
    def of(
        cls, status: str, rows: Sequence[EpochMetrics], resolutions: dict[str, dict[str, float]], run_dir: Path
    ) -> RunResult:
        """The test errors of the last evaluation, the median rate, the largest memory of these epochs."""
        tested = [row for row in rows if row.test_l2 is not None]
        rates = sorted(row.samples_per_second for row in rows if row.samples_per_second is not None)
        return cls(
            status=status,
            epochs=len(rows),
            l2=tested[-1].test_l2 if tested else None,
            h1=tested[-1].test_h1 if tested else None,
            train_loss=rows[-1].train_loss if rows else None,
            samples_per_second=rates[len(rates) // 2] if rates else None,
            peak_memory_bytes=_largest(row.peak_memory_bytes for row in rows),
            activation_bytes=_largest(row.activation_bytes for row in rows),
            resolutions=resolutions,
            run_dir=str(run_dir),
            zero_targets=(tested[-1].zero_targets or 0) if tested else 0,
            l2_full=tested[-1].test_l2_full if tested else None,
            h1_full=tested[-1].test_h1_full if tested else None,
        )

    def write(self) -> None:
        """Leave summary.json in the run directory, whose place it does not repeat."""
        values = {name: value for name, value in asdict(self).items() if name != "run_dir"}
        write_json(Path(self.run_dir) / SUMMARY, values)


FIGURES = tuple(field.name for field in fields(RunResult) if str(field.type).endswith("| None"))
"""Numbers of a result that several seeds have a mean of: those that may be unknown."""


def read_result(run_dir: Path) -> RunResult:
    """The result that a run directory holds."""
    try:
        return RunResult(**read_json(run_dir / SUMMARY), run_dir=str(run_dir))
    except TypeError as error:
        raise InputError(f"{run_dir / SUMMARY} is not the summary of a run: {error}") from error


def write_metrics(run_dir: Path, rows: Iterable[EpochMetrics]) -> None:
    """metrics.csv as a whole: the rows are in every checkpoint, so a resumed run neither loses nor doubles one."""
    columns = tuple(field.name for field in fields(EpochMetrics))
    write_csv(run_dir / "metrics.csv", columns, (asdict(row) for row in rows))


def read_metrics(run_dir: str | Path) -> list[Row]:
    """The rows of metrics.csv, numbers as numbers and empty cells as None."""
    return read_csv(as_path(run_dir) / "metrics.csv")


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value or 0 for value in values), default=0) or None


class Recorder:
    """Writes the rows of a run as they come: metrics.csv, ranges.csv and TensorBoard; times the updates of an epoch.

    Of several processes only one `writes`; the others time and keep silent.
    """

    def __init__(self, run_dir: Path, writes: bool) -> None:
        self.run_dir, self.writes = run_dir, writes
        self._times: list[float] = []  # seconds per sample
        self._events: EventLog | None = None

    def begin(self, rows: Sequence[EpochMetrics]) -> None:
        """Start, or go on after `rows`: what was written beyond them is of epochs that will be run again."""
        if not self.writes:
            return
        write_metrics(self.run_dir, rows)
        purge = rows[-1].epoch + 1 if rows else None
        self._events = EventLog(self.run_dir, purge)

    def add(self, rows: Sequence[EpochMetrics], ranges: Sequence[Mapping[str, Any]]) -> None:
        """The rows so far, the last of them new, and the ranges seen so far, if they are monitored."""
        if not self.writes:
            return
        write_metrics(self.run_dir, rows)
        if ranges:
            write_csv(self.run_dir / "ranges.csv", tuple(ranges[0]), ranges)
        assert self._events is not None, "begun before anything is added"
        numbers = {name: value for name, value in asdict(rows[-1]).items() if isinstance(value, (int, float))}
        self._events.add({name: value for name, value in numbers.items() if name != "epoch"}, rows[-1].epoch)

    def time(self, samples: int, seconds: float) -> None:
        self._times.append(seconds / samples)

    @property
    def rate(self) -> float | None:
        """Samples per second: the median over the updates of this epoch."""
        return 1 / statistics.median(self._times) if self._times else None

    def take_rate(self) -> float | None:
        """The rate of the epoch that ends, and begin a new one."""
        rate = self.rate
        self._times = []
        return rate
