"""Load and soak: does a long training, or a reader that is opened a thousand times, keep anything?

    python benchmarks/soak.py --steps 10000 --cycles 1000

Writes results/soak.json: bytes that the C library has handed out (mallinfo2: in use, freed blocks not counted), objects
of Python and open files, over the steps of a training of a tiny model, and over cycles of opening, reading and closing
of every kind of file that the library reads. Growth is from a tenth of the way to the end. `python docs/trust.py` draws
it. Two trainings and a generator side by side are in benchmarks/writers.py. Exit code 1 where the heap grew by more
than 1%, or a file stayed open.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "faults")]

from specimens import SPECIMENS  # noqa: E402

from halfwave.files import write_json  # noqa: E402
from halfwave.training import train  # noqa: E402
from halfwave.training.loop import Loop  # noqa: E402

LOOKS = 40
EPOCHS = 10
LARGEST_GROWTH = 0.01


_COUNTS = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)  # fmt: skip


class MallInfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in _COUNTS]


def look(at: int) -> dict[str, int]:
    """What the process has at a moment."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = MallInfo
    found = ask()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "at": at,
        "heap": found.uordblks + found.hblkhd,
        "resident": resident,
        "objects": len(gc.get_objects()),
        "files": len(os.listdir("/proc/self/fd")),
    }


def soak_training(steps: int) -> list[dict[str, int]]:
    """A training of so many updates, looked at on the way."""
    looks: list[dict[str, int]] = []
    account, done = Loop._account, 0

    def watched(self: Loop, *arguments: Any) -> None:
        nonlocal done
        account(self, *arguments)
        done += 1
        if done % max(1, steps // LOOKS) == 0:
            looks.append(look(done))

    rng = np.random.default_rng(0)
    data = tuple(rng.standard_normal((steps // EPOCHS, 1, 8, 8)).astype(np.float32) for _ in range(2))
    arguments = {"n_modes": (4, 4), "hidden_channels": 4, "n_layers": 1}
    Loop._account = watched  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        train(
            data={"train": data, "test": tuple(part[:2] for part in data)},
            model="FNO",
            arguments=arguments,
            run_dir=Path(folder) / "run",
            epochs=EPOCHS,
            batch_size=1,
            quiet=True,
        )
    Loop._account = account  # type: ignore[method-assign]
    return looks


def soak_reader(specimen: Any, cycles: int) -> list[dict[str, int]]:
    """One kind of file, opened, read and closed so many times."""
    with tempfile.TemporaryDirectory() as folder:
        path, looks = specimen.make(Path(folder)), []
        for done in range(1, cycles + 1):
            specimen.read(path)
            if done % max(1, cycles // 10) == 0:
                looks.append(look(done))
    return looks


def growth(looks: list[dict[str, int]], what: str) -> float:
    """Relative, from a tenth of the way to the end."""
    first = looks[max(0, len(looks) // 10 - 1)][what]
    return looks[-1][what] / first - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "soak.json")
    options = parser.parse_args()
    training = soak_training(options.steps)
    print(f"training: heap {growth(training, 'heap'):+.2%}, files {training[0]['files']} to {training[-1]['files']}")
    readers: dict[str, list[dict[str, int]]] = {}
    for specimen in SPECIMENS:
        readers[specimen.name] = looks = soak_reader(specimen, options.cycles)
        files = looks[-1]["files"] - looks[0]["files"]
        print(f"{specimen.name}: heap {growth(looks, 'heap'):+.2%}, files {files:+d}", flush=True)
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    made = {"commit": subprocess.run(commit, capture_output=True, text=True).stdout.strip()}
    made |= {"date": time.strftime("%Y-%m-%d"), "steps": str(options.steps), "cycles": str(options.cycles)}
    write_json(options.out, {**made, "training": training, "readers": readers})
    grown = [growth(looks, "heap") > LARGEST_GROWTH for looks in (training, *readers.values())]
    opened = [looks[-1]["files"] > looks[0]["files"] for looks in (training, *readers.values())]
    return int(any(grown) or any(opened))


if __name__ == "__main__":
    sys.exit(main())
