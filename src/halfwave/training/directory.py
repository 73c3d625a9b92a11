"""A run directory belongs to one run at a time, and is tidy after a kill."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from halfwave.files import locked, make_directory, remove_leftovers


@contextlib.contextmanager
def claimed(run_dir: Path) -> Iterator[None]:
    """Hold a run directory for this process; InputError if another one trains there. The system frees it at a kill."""
    taken = f"another process is training in {run_dir}: wait for it or use another directory"
    with locked(make_directory(run_dir / "state") / "lock", taken):
        for folder in (run_dir, run_dir / "state"):
            remove_leftovers(folder)
        yield
