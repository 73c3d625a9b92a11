"""Checks that run in several processes, many of them one after the other.

A check is a function, named as MODULE.FUNCTION; it raises where it fails. Its outcome in every process is a line of
JSON, so that each check is a test of its own.
"""

import importlib
import json
import traceback
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed as dist

from forked import run_forked


def run_checks(names: list[str], processes: int, folder: Path) -> dict[str, list[str]]:
    """Outcomes of the checks, one for each process: "passed", or what went wrong."""
    run_forked(_work, (names, str(folder)), processes)
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]
    return {name: [outcome[name] for outcome in found] for name in names}


def _work(names: list[str], folder: str) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    found = {}
    for name in names:
        torch.manual_seed(0)
        try:
            module, function = name.split(".")
            getattr(importlib.import_module(module), function)()
            found[name] = "passed"
        except Exception:
            found[name] = traceback.format_exc()
        dist.barrier()
    (Path(folder) / f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
