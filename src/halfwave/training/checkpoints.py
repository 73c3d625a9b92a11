"""Checkpoints: numbered sealed files of which the last few are kept; a damaged newest one falls back, and says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from halfwave.errors import InputError
from halfwave.training.sealed import read_sealed, write_sealed

_NAME = re.compile(r"at-(\d{10})\.safetensors")

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
