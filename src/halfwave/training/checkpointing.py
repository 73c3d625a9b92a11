"""What a run leaves on disk to go on from, and when: checkpoints, the best model, the last one.

Checkpoints are numbered sealed files of which the last few are kept; a damaged newest one falls back, and says so. All
processes take part, the first one writes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from halfwave.errors import InputError
from halfwave.files import FoundDirectory
from halfwave.training.engine import Engine
from halfwave.training.nonfinite import NonFiniteError
from halfwave.training.saving import model_file
from halfwave.training.sealed import read_sealed, write_sealed

_NAME = re.compile(r"at-(\d{10})\.safetensors")
# Writing may take so large a share of the time; a resume is exact from any checkpoint, so fewer lose time only.
_SHARE = 0.02
_FREE = 1.0  # seconds: a write that takes less is never put off

State = tuple[dict[str, Tensor], dict[str, Any]]


class Checkpoints:
    """The state files of one run, named by the number of batches done.

    Written aside, synced and renamed, so that a kill at any moment leaves whole files only; `keep` > 1 of them, so that
    a disk that lies leaves one to fall back on.
    """

    def __init__(self, directory: Path, keep: int) -> None:
        self.directory, self.keep = directory, keep

    def write(self, batches: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        write_sealed(self.directory / f"at-{batches:010d}.safetensors", tensors, values)
        for old in self.files()[self.keep :]:
            with suppress(FileNotFoundError):
                old.unlink()

    def files(self) -> list[Path]:
        """All state files, newest first."""
        if not self.directory.is_dir():
            return []
        return sorted((p for p in self.directory.iterdir() if _NAME.fullmatch(p.name)), reverse=True)

    def read(self, say: Callable[[str], None]) -> State | None:
        """The newest whole state; None if there has never been one.

        InputError when there are files and none can be used: a run must not silently begin anew.
        """
        files = self.files()
        for path in files:
            try:
                return read_sealed(path)
            except InputError as error:
                say(f"checkpoint not usable, falling back to the one before: {error}")
        if files:
            raise InputError(f"no usable checkpoint in {self.directory}: move it away to begin anew")
        return None


class Keeper:
    """Checkpoints, the best model and the last one."""

    def __init__(self, engine: Engine, run_dir: Path, metadata: Mapping[str, Any]) -> None:
        self.engine, self.run_dir, self.metadata = engine, run_dir, dict(metadata)
        self.place = FoundDirectory(run_dir)
        self.checkpoints = Checkpoints(run_dir / "state", engine.config.keep)
        self._best: State | None = None  # not yet written
        self._cost, self._written = 0.0, time.monotonic()

    def read(self, say: Callable[[str], None]) -> State | None:
        """The newest whole checkpoint, or None."""
        self._best = None
        return self.checkpoints.read(say)

    @property
    def empty(self) -> bool:
        return not self.checkpoints.files()

    def affordable(self) -> bool:
        """False while a checkpoint would take more than its share of the time; the same answer in all processes."""
        since = time.monotonic() - self._written
        return self.engine.fabric.broadcast(self._cost < _FREE or self._cost < _SHARE * since)

    def checkpoint(self, batches: int, values: Mapping[str, Any]) -> None:
        """Write the engine's state after `batches` batches beside `values`, and the best model if it is a new one."""
        self.place.check()
        if not self.engine.finite():
            raise NonFiniteError("the weights are not finite: not saved, the last checkpoint is kept")
        start = time.monotonic()
        tensors, engine = self.engine.state()
        if self.engine.fabric.is_global_zero:
            if self._best is not None:
                write_sealed(self.run_dir / "best.safetensors", *self._best)
            self.checkpoints.write(batches, tensors, {"engine": engine, **values})
        self._best = None
        self.engine.fabric.barrier()
        self._written = time.monotonic()
        self._cost = self._written - start

    def note_best(self, epoch: int) -> None:
        """Keep a copy of the model for the next checkpoint.

        Not before: a run that dies in between goes back to the checkpoint before, finds this model again, and must not
        find a better one on disk than it knows of.
        """
        tensors, values = model_file(self.engine.operator, self._extra(epoch))
        if self.engine.fabric.is_global_zero:
            self._best = {name: t.detach().to("cpu", copy=True) for name, t in tensors.items()}, values

    def save_model(self, epoch: int) -> None:
        """The operator as it stands, for `halfwave.load`."""
        self.place.check()
        content = model_file(self.engine.operator, self._extra(epoch))
        if self.engine.fabric.is_global_zero:
            write_sealed(self.run_dir / "model.safetensors", *content)

    def _extra(self, epoch: int) -> dict[str, Any]:
        return {"epoch": epoch, "data": self.metadata}
