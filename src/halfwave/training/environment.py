"""What a run ran on: versions, git state, machine. For the record, and for whoever repeats it."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from halfwave.numerics import describe_cpu

_PACKAGES = ("torch", "numpy", "lightning-fabric", "safetensors", "h5py", "pydantic")


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
    """Commit and cleanliness of the tree that holds this file; None outside one (an installed wheel) or without git."""
    folder = Path(__file__).resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "changed": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
