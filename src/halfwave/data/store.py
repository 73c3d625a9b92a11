"""Where a dataset grows: shards beside the target, which become one HDF5 file when all are there.

A shard is an `.npz` of a few finished samples, written aside and renamed, so a kill at any moment leaves whole shards
only; an HDF5 file killed in mid-write may be lost. Its name says which samples it holds, so none is lost or doubled.
The archive's CRC is checked when a shard is read, the checksums of `h5_writing` when the finished file is.

Layouts of the finished file (root attribute `metadata`: JSON):

    grid      /train/x, /train/y, /test/x, /test/y      each N x C x grid, float32
    time      /train/trajectory, /test/trajectory       each N x steps x C x grid, float32; beside it, where there are
              any, /train/static (N x S x grid) and /train/parameters (N x Q)
    points    /train/offsets (N + 1), and per sample i rows offsets[i]:offsets[i+1] of /train/points (P x 3),
              /train/normals (P x 3), /train/areas (P), /train/pressure (P); /train/parameters (N x Q); likewise /test
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from halfwave.data.generator import SPLITS, Arrays
from halfwave.data.h5_writing import H5Writer, written_h5
from halfwave.errors import InputError
from halfwave.files import PARTIAL, make_directory, read_json, write_json, written_aside

# Per-sample arrays of a point cloud that have one row per sample; all the others have one row per point.
PER_SAMPLE = ("parameters",)
_ASSEMBLED = "assembled"


@dataclass(frozen=True)
class Task:
    """Samples start .. stop-1 of a split: what one shard holds."""

    split: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def plan_tasks(counts: dict[str, int], chunk: int) -> list[Task]:
    """Cut each split into runs of `chunk` samples."""
    return [
        Task(split, start, min(start + chunk, counts[split]))
        for split in SPLITS
        for start in range(0, counts[split], chunk)
    ]


class ShardStore:
    """The shards of one dataset, in the directory `<path>.halfwave-partial`.

    `identity` is all that determines a sample: everything in the metadata but the number of samples.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path, self.identity = path, identity
        self.directory = path.with_name(path.name + PARTIAL)

    def open(self) -> None:
        """Begin, or resume what was begun for the same identity."""
        record = make_directory(self.directory) / "identity.json"
        if not record.exists():
            write_json(record, self.identity)
        if read_json(record) != self.identity:
            raise InputError(
                f"{self.directory} holds the unfinished samples of another dataset; choose another file or force"
            )

    def shard(self, task: Task) -> Path:
        """The file of a task; its name tells this dataset's shards from those of a process left over from another."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:8]
        return self.directory / f"{task.split}-{task.start:07d}-{task.stop:07d}-{digest}.npz"

    def discard(self) -> None:
        """Drop the shards, under another name: what a kill on the way leaves is known to be of no use."""
        shutil.rmtree(self._gone, ignore_errors=True)
        with suppress(OSError):
            os.replace(self.directory, self._gone)
        shutil.rmtree(self._gone, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def tidy(self) -> None:
        """Drop what a process left that was killed after the dataset was assembled."""
        shutil.rmtree(self._gone, ignore_errors=True)
        if (self.directory / _ASSEMBLED).exists():
            self.discard()

    @property
    def _gone(self) -> Path:
        return self.directory.with_name(f".{self.directory.name}")

    def done(self, tasks: list[Task]) -> int:
        """How many samples of `tasks` are safely on disk."""
        try:
            present = {entry.name for entry in self.directory.iterdir()}
        except FileNotFoundError:  # another process has finished the dataset, at this very moment perhaps
            return 0
        return sum(len(task) for task in tasks if self.shard(task).name in present)

    def has(self, task: Task) -> bool:
        return self.shard(task).exists()

    def write(self, task: Task, samples: list[Arrays]) -> None:
        if not self.directory.is_dir():
            return  # another process has finished the dataset meanwhile
        arrays = {f"{name}.{i}": array for i, sample in enumerate(samples) for name, array in sample.items()}
        try:
            with _explained(self.directory), written_aside(self.shard(task)) as aside, open(aside, "wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]
        except InputError as error:
            if not _was_taken_away(error):
                raise

    def read(self, task: Task) -> Iterator[Arrays]:
        try:
            with np.load(self.shard(task), allow_pickle=False) as shard:
                names = [key[:-2] for key in shard.files if key.endswith(".0")]
                for i in range(len(task)):
                    yield {name: shard[f"{name}.{i}"] for name in names}
        except Exception as error:  # NumPy and zipfile report damage in many ways
            self.shard(task).unlink(missing_ok=True)
            raise InputError(f"{self.shard(task)} was damaged and is removed; run again to make it anew") from error

    def assemble(self, tasks: list[Task], metadata: dict[str, Any]) -> None:
        """Write the HDF5 file from all the shards, rename it into place, and drop the shards."""
        whole = self.directory / "whole.h5"  # in here, so that a kill leaves no debris beside the target
        with _explained(self.path), written_h5(whole) as writer:
            writer.describe(metadata)
            for split in SPLITS:
                samples = (sample for task in tasks if task.split == split for sample in self.read(task))
                _write_split(writer, split, samples, metadata[f"n_{split}"])
        (self.directory / _ASSEMBLED).touch()
        os.replace(whole, self.path)
        self.discard()


def _was_taken_away(error: BaseException) -> bool:
    """Whether a file vanished under our hands: another process has finished the dataset and dropped the shards."""
    cause = error.__cause__
    return cause is not None and (isinstance(cause, FileNotFoundError) or _was_taken_away(cause))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """A full disk is bad luck, not a defect: one line that says so."""
    try:
        yield
    except InputError as error:
        said, _, reason = str(error).rpartition(": ")
        if not said.startswith("cannot write") or _was_taken_away(error):
            raise
        raise InputError(f"cannot write {path}: {reason}; finished samples are kept") from error


def _write_split(writer: H5Writer, split: str, samples: Iterator[Arrays], count: int) -> None:
    for i, sample in enumerate(samples):
        if "points" in sample:
            _append_cloud(writer, split, sample)
        else:
            _put_grid(writer, split, sample, i, count)


def _put_grid(writer: H5Writer, split: str, sample: Arrays, i: int, count: int) -> None:
    for name, array in sample.items():
        if i == 0:
            writer.create(f"{split}/{name}", (count, *array.shape), array.dtype)
        writer.fill(f"{split}/{name}", i, array)


def _append_cloud(writer: H5Writer, split: str, sample: Arrays) -> None:
    writer.append_offset(f"{split}/offsets", len(sample["points"]))
    for name, array in sample.items():
        writer.append(f"{split}/{name}", array[None] if name in PER_SAMPLE else array)


def read_metadata(path: Path) -> dict[str, Any] | None:
    """The metadata of a finished file, or None when there is no such file or it is not one of ours."""
    if not path.is_file():
        return None
    try:
        with h5py.File(path, "r") as file:
            metadata = json.loads(file.attrs["metadata"])
    except Exception:  # whatever HDF5 makes of a damaged file
        return None
    return metadata if isinstance(metadata, dict) else None
