"""Commands killed with SIGKILL at random moments and started again until they end: the result of a run left alone?

    python benchmarks/kills.py --kills 50

Each subject is a command with a result. It is run once without disturbance; then it is killed, with all processes that
it has started, at moments drawn evenly over the time that took, and started again. Where it ends, its result is
compared bit for bit with the first, and another round begins, until there have been enough kills.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from halfwave.files import PARTIAL, read_csv, read_json

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
        ("train", "fno", "--data", "INPUTS/d.h5", "--out", "FOLDER/run", "--epochs", "20", "--precision", "schedule",
         "--checkpoint-steps", "1", "--clip", "1.0", "--accumulate", "2", *TINY),
        run_result,
        ((*DATA, "INPUTS/d.h5"),),
    ),
    Subject(
        "data",
        0.24,
        ("data", "darcy", "--resolution", "48", "--n-train", "96", "--n-test", "8", "--workers", "2",
         "--out", "FOLDER/d.h5"),
        lambda folder: digest(folder / "d.h5"),
    ),
    Subject("reproduce", 0.18, ("reproduce", "number-systems", "--scale", "smoke", "--out", "FOLDER"), table_result),
    Subject(
        "rollout",
        0.18,
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


def kill_often(subject: Subject, kills: int, seed: int, folder: Path) -> Kills:
    """`kills` kills of one subject, and what came of it."""
    inputs, moments, found = folder / "inputs", random.Random(seed), Kills(subject.name)
    inputs.mkdir(parents=True)
    for words in subject.needs:
        run_whole(placed(words, inputs, inputs))
    begun = time.monotonic()
    whole = folder / "whole"
    whole.mkdir()
    run_whole(placed(subject.command, inputs, whole))
    seconds, expected = time.monotonic() - begun, subject.result(whole)
    while found.kills < kills:
        run_round(subject, found, kills, seconds, moments, inputs, folder / f"round-{found.rounds}", expected)
    return found


def run_round(
    subject: Subject,
    found: Kills,
    kills: int,
    seconds: float,
    moments: random.Random,
    inputs: Path,
    place: Path,
    expected: Any,
) -> None:
    """Start and kill until it ends by itself, or there have been enough kills and it is left to end."""
    place.mkdir()
    words, ended = placed(subject.command, inputs, place), False
    while not ended and found.kills < kills:
        ended = start_and_kill(words, moments.uniform(0, seconds), found)
    if not ended:
        found.failed += run_whole(words, check=False) != 0
    found.rounds += 1
    try:
        equal = subject.result(place) == expected
    except Exception as error:
        equal = False
        found.notes.append(f"{subject.name}: {error}")
    found.equal += equal
    found.leftovers += sum(PARTIAL in path.name for path in place.rglob("*"))


def start_and_kill(words: list[str], moment: float, found: Kills) -> bool:
    """Whether it ended before the moment came."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        _, errors = process.communicate(timeout=moment)
        if process.returncode != 0:
            found.failed += 1
            found.notes.append(errors.decode(errors="replace").strip().splitlines()[-1])
        return process.returncode == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        found.kills += 1
        return False


def placed(words: tuple[str, ...], inputs: Path, folder: Path) -> list[str]:
    here = [word.replace("INPUTS", str(inputs)).replace("FOLDER", str(folder)) for word in words]
    return [sys.executable, "-m", "halfwave", *here]


def run_whole(words: list[str], check: bool = True) -> int:
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.returncode


def run_kills(kills: int, seed: int, say: Callable[[str], None] = print) -> list[Kills]:
    """All subjects, each with its share of the kills."""
    found = []
    for subject in SUBJECTS:
        with tempfile.TemporaryDirectory(prefix="halfwave-kills-") as name:
            found.append(kill_often(subject, max(1, round(subject.share * kills)), seed, Path(name)))
        say(str(asdict(found[-1])))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    return int(any(each.bad for each in run_kills(options.kills, options.seed)))


if __name__ == "__main__":
    sys.exit(main())
