"""`halfwave info`: versions, hardware, what runs native here, where caches lie, which extras are installed."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table
from rich.text import Text

from halfwave.commands.common import results_console
from halfwave.export import cache_directory
from halfwave.numerics import (
    FORMATS,
    Format,
    core_count,
    default_half,
    describe_cpu,
    memory_bytes,
    multiplies_natively,
    narrows_fp32,
    thread_count,
    tiles_are_missing,
)
from halfwave.planner import format_bytes
from halfwave.training import library_version

_PACKAGES = (
    "torch", "numpy", "scipy", "h5py", "safetensors", "lightning-fabric", "opt_einsum", "torch-harmonics", "pydantic",
    "tyro", "rich",
)  # fmt: skip
_TOOLS = {"npm": "fetches the runtime of exported pages once", "chromium": "looks at pages in tests"}


@dataclass
class Info:
    """Versions, hardware, threads, what runs native, caches, extras: for a report of a problem."""

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self) -> None:
        found = gather_info()
        if self.json:
            print(json.dumps(found, indent=2))
            return
        console = results_console()
        for title, values in found.items():
            console.print(f"\n{title}", style="bold", markup=False)
            console.print(_listed(values))


def gather_info() -> dict[str, dict[str, Any]]:
    """By heading, JSON-able."""
    return {
        "versions": {
            "halfwave": library_version(),
            "python": platform.python_version(),
            **{name: _version(name) for name in _PACKAGES},
        },
        "hardware": _hardware(),
        "number formats": _formats(),
        "caches": _caches(),
        "extras": {name: _missing(needed) for name, needed in extras().items()},
        "tools": {name: shutil.which(name) or f"not found ({use})" for name, use in _TOOLS.items()},
    }


def extras() -> dict[str, list[str]]:
    """The optional parts of the installed package, each with what it needs."""
    try:
        required = importlib.metadata.requires("halfwave") or []
    except importlib.metadata.PackageNotFoundError:  # a source tree that is not installed
        required = []
    found: dict[str, list[str]] = {}
    for requirement in required:
        marked = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", requirement)
        if marked is not None:
            found.setdefault(marked[1], []).append(re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0])
    return found


def _hardware() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "machine": f"{platform.system()} {platform.machine()}, {platform.libc_ver()[0] or 'no glibc'}",
        "cpu": describe_cpu(),
        **({"tiles": "claimed, none there (a virtual machine): bf16 goes by fp32"} if tiles_are_missing() else {}),
        "cores": core_count(),
        "threads of an operation": thread_count(),
        "memory": format_bytes(memory_bytes()),
        "gpus": gpus or "none that torch sees",
        "fp32 products": "in less than fp32 (torch is allowed to)" if narrows_fp32() else "in fp32",
    }


def _formats() -> dict[str, str]:
    """Where a product in a format is as fast as in fp32 on the device that is taken by default."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    half = default_half(kind).name
    return {
        name: f"{'native' if multiplies_natively(format, kind) else _emulation(format)} on {kind}"
        f"{'; what half means by default' if name == half else ''}"
        for name, format in FORMATS.items()
    }


def _emulation(format: Format) -> str:
    if format.parts > 1:
        return "stored in fp32; products by bf16 parts"
    return "emulated in fp32" if format.emulated else "stored; products in fp32"


def _caches() -> dict[str, str]:
    folder = cache_directory()
    return {
        "runtime of exported pages": f"{folder} ({'there' if folder.exists() else 'not made yet'})",
        "compiled programs of torch": _inductor(),
        "bytecode": sys.pycache_prefix or "beside the sources",
    }


def _inductor() -> str:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return default_cache_dir()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _missing(needed: list[str]) -> str:
    missing = [name for name in needed if name != "halfwave" and _version(name) == "not installed"]
    return f"lacks {', '.join(missing)}" if missing else "installed"


def _listed(values: dict[str, Any]) -> Table:
    """Names on the left, what is said of them on the right."""
    table = Table.grid(padding=(0, 2))
    for name, value in values.items():
        table.add_row(Text(f"  {name}"), Text(_text(value), overflow="fold"))
    return table


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
