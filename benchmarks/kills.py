"""Commands killed with SIGKILL at random moments and started again until they end: the result of a run left alone?

    python benchmarks/kills.py --kills 50

Each subject is a command with a result. It is run once without disturbance; then it is killed, with all processes that
it has started, at moments drawn evenly over the time that took, and started again. Where it ends, its result is
compared bit for bit with the first, and another round begins, until there have been enough kills. Commands are forked
from a process that has imported the library (preloaded.py): every kill falls into work.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from halfwave.files import PARTIAL, read_csv, read_json
from preloaded import Server

TIMES = ("seconds", "samples_per_second")
DATA = ("data", "darcy", "--resolution", "16", "--n-train", "24", "--n-test", "4", "--workers", "1", "--out")
TINY = ("--batch-size", "4", "--arguments", "n_modes=[4,4]", "hidden_channels=6", "n_layers=2")


@dataclass(frozen=True)
class Subject:
    """A command, of which FOLDER is the place of its result, and what of that must be equal."""

    name: str
    share: float
    """Of all kills."""
    command: tuple[str, ...]
    result: Callable[[Path], Any]
    needs: tuple[tuple[str, ...], ...] = ()
    """Commands that are run first, once, in INPUTS."""


@dataclass
class Kills:
    """What came of the kills of one subject."""

    name: str
    kills: int = 0
    rounds: int = 0
    equal: int = 0
    failed: int = 0
    """Starts that ended with an error by themselves."""
    leftovers: int = 0
    """Files aside that are still there when a round has ended."""
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        return self.rounds - self.equal + self.failed + self.leftovers


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_result(folder: Path) -> Any:
    """Of a run: every bit of its models, and every row but for times."""
    run = folder / "run"
    rows = [{k: v for k, v in row.items() if k not in TIMES} for row in read_csv(run / "metrics.csv")]
    return digest(run / "model.safetensors"), digest(run / "best.safetensors"), rows


def table_result(folder: Path) -> Any:
    """Of an experiment: the rows of all of its tables, but for times and for what tells one process from another."""
    tables = sorted(folder.rglob("*.csv"))
    assert tables, "an experiment leaves a table"
    return [[_lasting(row) for row in sorted(read_csv(path), key=str)] for path in tables if "runs" not in path.parts]


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if "second" not in k and "time" not in k and "per_s" not in k}


def rollout_result(folder: Path) -> Any:
    values = read_json(folder / "out" / "rollout.json")
    return values, digest(folder / "out" / "rollout.npz")


SUBJECTS = (
    Subject(
        "train",
        0.4,
        ("train", "fno", "--data", "INPUTS/d.h5", "--out", "FOLDER/run", "--epochs", "8", "--precision", "schedule",
         "--checkpoint-steps", "1", "--clip", "1.0", "--accumulate", "2", *TINY),
        run_result,
        ((*DATA, "INPUTS/d.h5"),),
    ),
    Subject(
        "data",
        0.3,
        ("data", "darcy", "--resolution", "48", "--n-train", "96", "--n-test", "8", "--workers", "2",
         "--out", "FOLDER/d.h5"),
        lambda folder: digest(folder / "d.h5"),
    ),
    Subject("reproduce", 0.1, ("reproduce", "number-systems", "--scale", "smoke", "--out", "FOLDER"), table_result),
    Subject(
        "rollout",
        0.2,
        ("rollout", "INPUTS/stepper", "--data", "INPUTS/t.h5", "--out", "FOLDER/out", "--animation", "none"),
        rollout_result,
        (
            ("data", "heat", "--resolution", "32", "--n-train", "6", "--n-test", "3", "--parameters", "steps=15",
             "--workers", "1", "--out", "INPUTS/t.h5"),
            ("train", "fno", "--data", "INPUTS/t.h5", "--out", "INPUTS/stepper", "--epochs", "2", "--horizon", "2",
             "--batch-size", "8", "--arguments", "n_modes=[4]", "hidden_channels=6", "n_layers=2"),
        ),
    ),
)  # fmt: skip


@dataclass
class Killer:
    """Starts and kills one subject until there have been enough kills."""

    subject: Subject
    kills: int
    moments: random.Random
    folder: Path
    server: Server

    def run(self) -> Kills:
        inputs, found = self.folder / "inputs", Kills(self.subject.name)
        inputs.mkdir(parents=True)
        for words in self.subject.needs:
            self._whole(words, inputs)
        whole = self.folder / "whole"
        whole.mkdir()
        begun = time.monotonic()
        self._whole(self.subject.command, whole)
        seconds, expected = time.monotonic() - begun, self.subject.result(whole)
        while found.kills < self.kills:
            place = self.folder / f"round-{found.rounds}"
            place.mkdir()
            self._round(found, seconds, place, expected)
        return found

    def _whole(self, words: tuple[str, ...], place: Path) -> None:
        self.server.start(placed(words, self.folder / "inputs", place))
        code, errors = self.server.wait()
        if code != 0:
            raise SystemExit(f"{' '.join(words)}: {errors}")

    def _round(self, found: Kills, seconds: float, place: Path, expected: Any) -> None:
        """Start and kill until it ends by itself, or there have been enough kills and it is left to end."""
        words, ended = placed(self.subject.command, self.folder / "inputs", place), False
        while not ended:
            ended = self._start(words, found, self.moments.uniform(0, seconds) if found.kills < self.kills else None)
        found.rounds += 1
        try:
            equal = self.subject.result(place) == expected
        except Exception as error:
            equal = False
            found.notes.append(f"{self.subject.name}: {error}")
        found.equal += equal
        found.leftovers += sum(PARTIAL in path.name for path in place.rglob("*"))

    def _start(self, words: list[str], found: Kills, moment: float | None) -> bool:
        """Whether it ended by itself, well or not, before the moment came."""
        leader = self.server.start(words)
        if moment is not None and not self.server.ends_within(moment):
            os.killpg(leader, signal.SIGKILL)
            self.server.wait()
            found.kills += 1
            return False
        code, errors = self.server.wait()
        if code != 0:
            found.failed += 1
            found.notes.append((errors.strip().splitlines() or [f"code {code}"])[-1])
        return True


def placed(words: tuple[str, ...], inputs: Path, folder: Path) -> list[str]:
    return [word.replace("INPUTS", str(inputs)).replace("FOLDER", str(folder)) for word in words]


def run_kills(kills: int, seed: int, say: Callable[[str], None] = print, processes: int = 1) -> list[Kills]:
    """All subjects, each with its share of the kills."""
    found = []
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        for each in pool.map(partial(_kill_subject, kills, seed), range(len(SUBJECTS))):
            found.append(each)
            say(str(asdict(each)))
    return found


def _kill_subject(kills: int, seed: int, number: int) -> Kills:
    subject, server = SUBJECTS[number], Server()
    try:
        with tempfile.TemporaryDirectory(prefix="halfwave-kills-") as name:
            part = max(1, round(subject.share * kills))
            return Killer(subject, part, random.Random(seed), Path(name), server).run()
    finally:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--processes", type=int, default=1, help="subjects side by side")
    options = parser.parse_args()
    return int(any(each.bad for each in run_kills(options.kills, options.seed, processes=options.processes)))


if __name__ == "__main__":
    sys.exit(main())
