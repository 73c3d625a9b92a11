"""Files that are either whole or not there: written aside, synced, renamed."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from halfwave.errors import InputError, described

PARTIAL = ".halfwave-partial"
"""Ends the name of what is being written, and of nothing else: what a killed process left can be told and removed."""


LARGEST_JSON = 16 * 2**20
"""Bytes of a JSON file that is read: as Python objects it takes up to twenty times as much."""

_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


@contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success sync it and rename it over `path`, else remove it."""
    path = Path(path)
    check_regular(path)
    make_directory(path.parent)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    os.close(descriptor)
    aside = Path(name)
    try:
        yield aside
        with open(aside, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
        _sync_directory(path.parent)
    except BaseException as error:
        with suppress(FileNotFoundError):
            aside.unlink()
        if isinstance(error, OSError):  # NumPy reports a full disk by counts of bytes alone
            raise InputError(f"cannot write {path}: {error.strerror or f'not all bytes ({error})'}") from error
        raise


def _sync_directory(folder: Path) -> None:
    """After it a power cut cannot take the new name back; where a directory cannot be synced, that may happen."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: Path, of: str = "") -> None:
    """Remove the files of `folder` that a killed process was writing aside, and no other's; of names that begin so."""
    for path in folder.glob(f".{of}*{PARTIAL}"):
        with suppress(FileNotFoundError):
            path.unlink()


@contextmanager
def locked(path: Path, taken: str) -> Iterator[None]:
    """Hold the lock file `path` for this process; InputError that says `taken` where another one holds it.

    The system frees it when the holder ends, killed or not; the file stays. InputError too where nothing can be written
    or locked (some network mounts): two writers would not be told apart there.
    """
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(taken) from None
    except (OSError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot lock {path}: {reason}; expected a place that can be written and locked") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def held(path: Path, wait: bool) -> Iterator[bool]:
    """Hold the lock file `path`, and yield whether this process does: with `wait` always, in the end."""
    make_directory(path.parent)
    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def check_no_input(output: str | Path, *inputs: str | Path) -> None:
    """InputError where `output` is one of the `inputs`, by whatever name: a link, another way to the same file."""
    for read in inputs:
        if Path(output).exists() and Path(read).exists() and os.path.samefile(output, read):
            raise InputError(f"cannot write {output}: that would overwrite {read}, which is read; choose another name")


class FoundDirectory:
    """A directory as it was found: another one of its name, or none, is not it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found = self._look()

    def check(self) -> None:
        """InputError where it has been taken away: writing there would make a new one, with a part of the work."""
        if self._look() != self._found:
            raise InputError(f"{self.path} was removed while it was being written to; the same command begins anew")

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def as_path(given: Any) -> Path:
    """`given` as a path; InputError for what is none."""
    if not isinstance(given, str | os.PathLike) or "\0" in str(given):
        raise InputError(f"{described(given)} is no path: expected the name of a file or directory")
    return Path(given)


def check_regular(path: str | Path) -> None:
    """InputError for what is neither a file nor a directory: reading a FIFO may never end, a device is no place to
    rename a file to. What is not there passes: whoever opens it says so.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{str(path)!r} is no name of a file: {error}") from error
    kind = next((name for is_kind, name in _SPECIAL if is_kind(mode)), None)
    if kind is not None:
        raise InputError(f"{path} is {kind}; an ordinary file is expected")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def make_directory(path: str | Path) -> Path:
    """Create a directory and its parents; InputError where that cannot be done."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror}") from error
    return path


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    text = json.dumps(value, indent=2) + "\n"
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table with its heads, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with written_aside(path) as aside:
        aside.write_text(text.getvalue(), encoding="utf-8")


def read_csv(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a table, numbers as numbers and empty cells as None."""
    path = as_path(path)
    check_regular(path)
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


def read_json(path: str | Path) -> Any:
    """Read JSON; InputError that names the file when it is missing or damaged."""
    path = as_path(path)
    check_regular(path)
    try:
        if (size := path.stat().st_size) > LARGEST_JSON:
            raise InputError(f"{path} has {size} bytes; at most {LARGEST_JSON} of JSON are read")
        return parse_json(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error


def parse_json(text: str | bytes, where: str) -> Any:
    """The value of a JSON text; InputError that says `where` for what is none, or is nested beyond all use."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not valid JSON: {error}") from error
