"""The record of a run: config.json, metrics.csv and TensorBoard events."""

from __future__ import annotations

import csv
import hashlib
import io
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from halfwave.data.placement import Placement
from halfwave.errors import InputError
from halfwave.files import read_json, write_csv, write_json
from halfwave.training.config import TrainConfig, read_config
from halfwave.training.environment import describe_environment

COLUMNS = (
    "epoch", "step", "phase", "policy", "train_loss", "test_l2", "test_h1", "learning_rate", "loss_scale",
    "skipped_steps", "seconds", "samples_per_second", "peak_memory_bytes", "activation_bytes",
    "allocator_peak_bytes", "zero_targets",
)  # fmt: skip

Row = dict[str, Any]
_WHOLE = 1 << 30
_BLOCKS = 256


def is_started(run_dir: Path) -> bool:
    """True when a run directory holds something that would be lost: a checkpoint or a result."""
    return any((run_dir / "state").glob("at-*")) or (run_dir / "summary.json").exists()


def start_record(run_dir: Path, config: TrainConfig, placement: Placement) -> None:
    """Write config.json of a new run, or check that a resumed one has the same settings and the same data."""
    path = run_dir / "config.json"
    fingerprint = fingerprint_data(config)
    if not is_started(run_dir):
        _check_free(run_dir)
        record = {"config": config.to_dict(), "data": fingerprint, "domain": placement.to_dict()}
        write_json(path, {**record, "environment": describe_environment()})
        return
    changed = config.differences(read_config(path))
    if changed:
        raise InputError(f"{run_dir} holds a run with other settings ({'; '.join(changed)}): use another directory")
    if read_json(path).get("data") != fingerprint:
        raise InputError(f"{config.data} is not the file that {run_dir} was trained on: use another directory")


def _check_free(run_dir: Path) -> None:
    """InputError where a new run would overwrite a file that is not of a run, such as another program's config.json."""
    taken = [name for name in ("config.json", "metrics.csv", "model.safetensors") if (run_dir / name).exists()]
    if taken and not _is_record(run_dir / "config.json"):
        raise InputError(f"{run_dir} holds a {taken[0]} that is not of a run: use another directory")


def _is_record(path: Path) -> bool:
    """Whether it is the config.json of a run, which was stopped before its first checkpoint."""
    try:
        found = read_json(path)
    except InputError:
        return False
    return isinstance(found, dict) and {"config", "data", "environment"} <= found.keys()


def fingerprint_data(config: TrainConfig) -> dict[str, Any]:
    """What tells this data from other data: of files their content; live data is what its name says."""
    if config.is_live:
        return {"live": config.data}
    test = {} if config.test_data is None else {"test": fingerprint_path(config.test_data)}
    return {**fingerprint_path(config.data), **test}


def fingerprint_path(path: str | Path) -> dict[str, Any]:
    """Of a file, or of all files of a directory with their names."""
    path = Path(path)
    if not path.is_dir():
        return fingerprint_file(path)
    digest, size = hashlib.sha256(), 0
    for file in sorted(f for f in path.rglob("*") if f.is_file()):
        found = fingerprint_file(file)
        digest.update(f"{file.relative_to(path).as_posix()} {found['sha256']}\n".encode())
        size += found["bytes"]
    return {"bytes": size, "sha256": digest.hexdigest()}


def fingerprint_file(path: str | Path) -> dict[str, Any]:
    """Size and SHA-256: of the whole content up to 1 GiB, beyond that of 256 blocks of 1 MiB spread over it."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, io.SEEK_END)
            digest = hashlib.sha256()
            count = 1 if size <= _WHOLE else _BLOCKS
            length = size if size <= _WHOLE else 1 << 20
            for i in range(count):
                file.seek((size - length) * i // max(1, count - 1))
                digest.update(file.read(length))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return {"bytes": size, "sha256": digest.hexdigest()}


def write_metrics(run_dir: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """metrics.csv as a whole: the rows are in every checkpoint, so a resumed run neither loses nor doubles one."""
    write_csv(run_dir / "metrics.csv", COLUMNS, rows)


def read_metrics(run_dir: str | Path) -> list[Row]:
    """The rows of metrics.csv, numbers as numbers and empty cells as None."""
    path = Path(run_dir) / "metrics.csv"
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [{name: _number(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _number(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None


class Recorder:
    """Writes the rows of a run as they come: metrics.csv, ranges.csv and TensorBoard; times the updates of an epoch.

    Of several processes only one `writes`; the others time and keep silent.
    """

    def __init__(self, run_dir: Path, writes: bool) -> None:
        self.run_dir, self.writes = run_dir, writes
        self._times: list[float] = []  # seconds per sample
        self._board: Any = None

    def begin(self, rows: Sequence[Row]) -> None:
        """Start, or go on after `rows`: what was written beyond them is of epochs that will be run again."""
        if not self.writes:
            return
        # Imported here: it costs a second, and only the process that writes needs it.
        from torch.utils.tensorboard import SummaryWriter

        write_metrics(self.run_dir, rows)
        purge = rows[-1]["epoch"] + 1 if rows else None
        self._board = SummaryWriter(str(self.run_dir), purge_step=purge)

    def add(self, rows: Sequence[Row], ranges: Sequence[Mapping[str, Any]]) -> None:
        """The rows so far, the last of them new, and the ranges seen so far, if they are monitored."""
        if not self.writes:
            return
        write_metrics(self.run_dir, rows)
        if ranges:
            write_csv(self.run_dir / "ranges.csv", tuple(ranges[0]), ranges)
        for name, value in rows[-1].items():
            if name != "epoch" and isinstance(value, (int, float)):
                self._board.add_scalar(name, value, rows[-1]["epoch"])

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

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
