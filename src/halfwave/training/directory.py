"""A run directory belongs to one run at a time, and is tidy after a kill."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from halfwave.errors import InputError
from halfwave.files import make_directory, remove_leftovers

try:
    import fcntl
except ImportError:  # not a POSIX system: two runs in one directory are not told apart there
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def claimed(run_dir: Path) -> Iterator[None]:
    """Hold a run directory for this process; InputError if another one trains there. The system frees it at a kill."""
    lock = make_directory(run_dir / "state") / "lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {lock}: {error.strerror}") from error
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in (run_dir, run_dir / "state"):
            remove_leftovers(folder)
        yield
    except BlockingIOError:
        raise InputError(f"another process is training in {run_dir}: wait for it or use another directory") from None
    finally:
        os.close(descriptor)
