"""Checks that run in several processes: one spawn serves many of them, as each process takes seconds to import torch.

A check is a function, named as MODULE.FUNCTION; it raises where it fails. Its outcome in every process is a line of
JSON, so that each check is a test of its own.
"""

import importlib
import json
import os
import socket
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed as dist
from torch import multiprocessing


def run_checks(names: list[str], processes: int, folder: Path) -> dict[str, list[str]]:
    """Outcomes of the checks, one for each process: "passed", or what went wrong."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = [str(Path(__file__).parent), *sys.path]
    multiprocessing.spawn(_work, (names, processes, str(folder), port, paths), processes)
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]
    return {name: [outcome[name] for outcome in found] for name in names}


def _work(rank: int, names: list[str], processes: int, folder: str, port: int, paths: list[str]) -> None:
    sys.path[:] = paths
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=processes, timeout=timedelta(seconds=60))
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
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
