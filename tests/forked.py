"""Processes with the environment that torchrun gives them, forked from one that has imported torch.

Each import of torch takes seconds, of which a test with four processes would spend five times as many.
"""

import os
import socket
import sys
from collections.abc import Callable
from multiprocessing import set_forkserver_preload
from typing import Any

import torch
from torch import multiprocessing


def run_forked(function: Callable[..., Any], arguments: tuple[Any, ...], processes: int) -> None:
    """Call `function(*arguments)` in so many processes; what one of them raises is raised here."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    set_forkserver_preload(["halfwave.training", "lightning_fabric", "torch.distributed.tensor"])
    given = (function, arguments, processes, port, list(sys.path))
    multiprocessing.start_processes(_work, given, processes, start_method="forkserver")


def _work(
    rank: int, function: Callable[..., Any], arguments: tuple[Any, ...], processes: int, port: int, paths: list[str]
) -> None:
    sys.path[:] = paths
    torch.set_num_threads(1)
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0}
    sizes = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "GROUP_WORLD_SIZE": 1}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "forked"}
    os.environ |= {name: str(value) for name, value in {**ranks, **sizes, **where}.items()}
    function(*arguments)
