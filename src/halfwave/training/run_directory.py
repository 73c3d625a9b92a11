"""A run directory: one run's at a time, tidy after a kill, and with the record of what it is a run of.

config.json has the settings, the domain, a fingerprint of the data, and the environment: versions, git state, machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import platform
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from halfwave.data import GivenData, Placement, carries_checksums
from halfwave.errors import InputError
from halfwave.files import check_regular, locked, make_directory, read_json, remove_leftovers, write_json
from halfwave.numerics import describe_cpu
from halfwave.training.config import TrainConfig, read_config
from halfwave.training.records import SUMMARY

_PACKAGES = ("torch", "numpy", "lightning-fabric", "safetensors", "h5py", "pydantic")
_WHOLE = 1 << 30
_BLOCKS = 256


@contextlib.contextmanager
def claimed(run_dir: Path, work: str = "training") -> Iterator[None]:
    """Hold a run directory for this process and its `work`; InputError if another holds it. A kill frees it."""
    taken = f"another process is {work} in {run_dir}: wait for it or use another directory"
    with locked(make_directory(run_dir / "state") / "lock", taken):
        for folder in (run_dir, run_dir / "state"):
            remove_leftovers(folder)
        yield


def is_run(path: Path) -> bool:
    """Whether it is the directory of a run, by its record."""
    return (path / "config.json").is_file()


def find_model_file(run: Path) -> Path:
    """The model of a run: `run` itself if it is a file, else ``model.safetensors`` in the directory."""
    if run.is_dir():
        found = run / "model.safetensors"
        if not found.exists():
            raise InputError(f"{run} has no model.safetensors: not a run, or not finished (train again to resume it)")
        return found
    if not run.exists():
        raise InputError(f"{run} does not exist: expected a run directory or a model file")
    return run


def is_started(run_dir: Path) -> bool:
    """True when a run directory holds something that would be lost: a checkpoint or a result."""
    return any((run_dir / "state").glob("at-*")) or (run_dir / SUMMARY).exists()


def start_record(run_dir: Path, config: TrainConfig, placement: Placement) -> None:
    """Write config.json of a new run, or check that a resumed one has the same settings and the same data."""
    path = run_dir / "config.json"
    fingerprint = fingerprint_data(config)
    if not is_started(run_dir):
        _check_free(run_dir)
        record = {"config": config.to_dict(), "data": fingerprint, "domain": placement.to_dict()}
        write_json(path, {**record, "checksums": _guarded(config), "environment": describe_environment()})
        return
    before = read_config(path)
    longer = config.epochs > before.epochs and _is_finished(run_dir)
    changed = config.differences(before.model_copy(update={"epochs": config.epochs}) if longer else before)
    if changed:
        raise InputError(f"{run_dir} holds a run with other settings ({'; '.join(changed)}): use another directory")
    if read_json(path).get("data") != fingerprint:
        raise InputError(f"{config.data} is not the file that {run_dir} was trained on: use another directory")
    if longer:
        write_json(path, {**read_json(path), "config": config.to_dict()})


def _is_finished(run_dir: Path) -> bool:
    summary = run_dir / SUMMARY
    return summary.exists() and read_json(summary).get("status") == "finished"


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
    start = {} if config.init_from is None else {"init": fingerprint_path(_weights(Path(config.init_from)))}
    if config.is_live:
        return {"live": config.data, **start}
    source = config.source
    if isinstance(source, GivenData):
        return {**source.fingerprint(), **start}
    test = {} if config.test_data is None else {"test": fingerprint_path(config.test_data)}
    return {**fingerprint_path(source), **test, **start}


def _guarded(config: TrainConfig) -> bool | None:
    """Whether the data file carries checksums; None of data that are no file."""
    source = config.source
    return None if config.is_live or isinstance(source, GivenData) else carries_checksums(source)


def _weights(init_from: Path) -> Path:
    return init_from / "model.safetensors" if init_from.is_dir() else init_from


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
    check_regular(path)
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


def library_version() -> str:
    """The installed version of halfwave; "source" when it runs from a tree that is not installed."""
    return _version("halfwave") or "source"


def describe_environment() -> dict[str, Any]:
    """JSON-able: versions, git commit and whether the tree was changed, processor, Python, command line."""
    return {
        "halfwave": library_version(),
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "git": _git_state(),
        "cpu": describe_cpu(),
        "platform": platform.platform(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else [],
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@lru_cache(maxsize=1)  # a process runs the code that it was started with, whatever is committed meanwhile
def _git_state() -> dict[str, Any] | None:
    """Commit, and whether the library differs from it; None outside a tree (an installed wheel) or without git.

    Only the library's own folder counts: results that a run writes into the tree do not change its code.
    """
    folder = Path(__file__).resolve().parent.parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "changed": bool(_git(folder, "status", "--porcelain", "--", "."))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
