"""Commands in processes forked from one that has imported the library: what is killed is work, not seconds of imports.

    python benchmarks/preloaded.py        # serves: a JSON list of words a line, answered by a process id and a code

Each command is `halfwave.cli.main` in a process group of its own, as `python -m halfwave` is; the server has imported
modules and computed nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = (
    "lightning_fabric", "matplotlib.backends.backend_agg", "matplotlib.figure", "torch.utils.tensorboard",
    "tyro", "rich.progress",
    "scipy.sparse.linalg", "halfwave.training", "halfwave.planner", "halfwave.report", "halfwave.recipes",
    "halfwave.commands.train", "halfwave.commands.data", "halfwave.commands.reproduce", "halfwave.commands.rollout",
    "halfwave.commands.interface", "halfwave.commands.usage_errors", "halfwave.experiments.number_systems", "PIL.Image",
)  # fmt: skip


class Server:
    """Starts commands, one after the other, each by a fork of one process."""

    def __init__(self) -> None:
        self._errors = Path(tempfile.mkstemp(prefix="halfwave-errors-")[1])
        command = [sys.executable, __file__, str(self._errors)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def start(self, words: list[str]) -> int:
        """The id of the process that runs a command, which leads a group of its own."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        return self._answer()

    def ends_within(self, seconds: float) -> bool:
        """Whether the command ends by itself in this time."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def wait(self) -> tuple[int, str]:
        """When the command has ended: its exit code, negative for a signal, and what it said on the error stream."""
        code = self._answer()
        return code, self._errors.read_text(errors="replace")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._errors.unlink()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def serve(errors: str) -> None:
    import halfwave.cli

    for name in MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            os.setpgid(0, 0)
            _redirect(errors)
            halfwave.cli.main(json.loads(line))
        os.setpgid(child, child)  # whoever comes first
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _redirect(errors: str) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_TRUNC), 2)


if __name__ == "__main__":
    serve(sys.argv[1])
