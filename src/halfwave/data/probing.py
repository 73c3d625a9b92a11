"""A look at a file by another process first: what kills or hangs it does so there.

HDF5 trusts the descriptions that it reads: a changed length in one of them can end the process that asks for it
(of attributes of variable length it does). A forked process is quick, knows all modules already, and its end is ours to
tell. What it could look at, this one looks at again.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from halfwave.errors import InputError

_PATIENCE = 120.0
"""Seconds for descriptions, not data."""
_ROOM = 256 * 2**20
"""Bytes that they may take."""
_FINE = b"fine"


def try_apart(path: Path, look: Callable[[], object]) -> None:
    """Call `look` in a process of its own; InputError where it raises, and where the process dies or does not end.

    Not where the system cannot fork, nor beside other threads of Python, whose locks a fork may find taken for ever.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads that torch has and this never uses
        child = os.fork()
    if child == 0:
        _be_child(write, look)
    os.close(write)
    try:
        said = _listen(read)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
    if said != _FINE:
        damaged = f"{path} is damaged: HDF5 does not survive reading its descriptions"
        raise InputError(said.decode("utf-8", "replace") or damaged)


def _listen(read: int) -> bytes:
    """All that the child says, until it ends or is silent for too long."""
    said = b""
    while select.select([read], [], [], _PATIENCE)[0] and (more := os.read(read, 65536)):
        said += more
    return said


def _be_child(write: int, look: Callable[[], object]) -> NoReturn:
    try:
        _limit_memory()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            look()
            said = _FINE
        except InputError as error:
            said = str(error).encode("utf-8", "replace")
        os.write(write, said)
    finally:
        os._exit(0)  # nothing of the parent's is flushed, closed or run twice


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        taken = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = taken + _ROOM if soft == resource.RLIM_INFINITY else min(soft, taken + _ROOM)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
