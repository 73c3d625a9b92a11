"""One place where what reading libraries raise becomes one line: of a damaged or hostile file anything may come.

HDF5, NumPy, SciPy, torch and plyfile report the same damage as OSError, RuntimeError, KeyError, TypeError, TokenError,
RecursionError and more. Whoever reads from a file does so within `reading`; the cause stays attached (`--debug`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from halfwave.errors import InputError
from halfwave.files import check_regular

_LONGEST = 120


@contextmanager
def reading(path: Path, what: str = "") -> Iterator[None]:
    """Within, the content of `path`, or the part of it called `what`, is read: every error is an InputError."""
    where = f"{path}: '{what}'" if what else f"{path}"
    try:
        yield
    except InputError as error:
        if "\n" in str(error):  # in a name that the file gives
            raise InputError(" ".join(str(error).split())) from error
        raise
    except MemoryError as error:
        raise InputError(f"{where} needs more memory than there is") from error
    except Exception as error:
        raise InputError(f"{where} cannot be read, the file is truncated or damaged{_reason(error)}") from error


def require_file(path: Path) -> None:
    """InputError unless `path` is a readable file with something in it."""
    check_regular(path)
    try:
        found = os.stat(path)
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise InputError(f"{path} {reason}") from None
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} is a directory; a dataset file is expected")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: permission denied")
    if found.st_size == 0:
        raise InputError(f"{path} is empty (0 bytes)")


def _reason(error: Exception) -> str:
    """What the library said, in a few words: a missing filter is told from a flipped bit by nothing else."""
    said = " ".join(str(error.args[-1] if error.args else "").split())
    return f" ({said[:_LONGEST]})" if said else ""
