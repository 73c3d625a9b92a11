"""A look at a file by another process first: what kills or hangs it does so there.

HDF5 trusts the descriptions that it reads: a changed length in one of them can end the process that asks for it
(of attributes of variable length it does). A forked process is quick, knows all modules already, and its end is ours to
tell. What it could look at, this one looks at again.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from halfwave.errors import InputError
from halfwave.numerics import mapped_bytes

_PATIENCE = 120
"""Seconds for descriptions, not data, on a slow disk."""
_WORK = 5
"""Seconds of processor time for those of one file: beyond it they go in circles."""
_ROOM = 256 * 2**20
"""Bytes that they may take."""
_FINE = b"fine"


def try_apart(path: Path, look: Callable[[], object], files: int = 1) -> None:
    """Call `look`, which opens so many `files`, in a process of its own.

    InputError where it raises, and where the process dies or does not end: it ends itself, whoever waits for it.
    Not where the system cannot fork, nor beside other threads of Python, whose locks a fork may find taken for ever.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads that torch has and this never uses
        child = os.fork()
    if child == 0:
        _be_child(write, look, files)
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
    """All that the child says until it ends."""
    said = b""
    while more := os.read(read, 65536):
        said += more
    return said


def _be_child(write: int, look: Callable[[], object], files: int) -> NoReturn:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE * files)
        _limit(_WORK * files)
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


def _limit(seconds: int) -> None:
    """Of memory and of processor time; at the end of either the system takes over."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = mapped_bytes() + _ROOM
        most = most if soft == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (end, end))
