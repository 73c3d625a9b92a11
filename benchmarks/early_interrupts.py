"""SIGINT at random moments from the start of a command on: exit code 130 and one line, or the command had ended.

    python benchmarks/early_interrupts.py --tries 14

Half of the tries signal the process alone, half its whole group, as a terminal does. Before Python has started this
program nothing of ours can answer, so the moments begin when the interpreter runs it; how long that took is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

LINE = "halfwave: interrupted; the same command goes on where it stopped"
COMMANDS = (
    ("data", "darcy", "--resolution", "16", "--n-train", "64", "--n-test", "8", "--out", "FOLDER/{i}.h5"),
    ("train", "darcy-small", "--epochs", "2", "--out", "FOLDER/run-{i}"),
    ("plan", "darcy"),
    ("bounds",),
)


@dataclass(frozen=True)
class Try:
    command: str
    moment: float
    code: int
    errors: str

    @property
    def good(self) -> bool:
        """Interrupted with the one line at the end and no traceback; or it had ended before the signal came."""
        if self.code == 0:
            return True
        lines = self.errors.strip().splitlines()
        return self.code == 130 and lines.count(LINE) == 1 and lines[-1] == LINE and "Traceback" not in self.errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=14)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--latest", type=float, default=6.0, help="seconds after the start")
    options = parser.parse_args()
    tries = interrupt_often(options.tries, options.seed, options.latest)
    bad = [each for each in tries if not each.good]
    for each in bad:
        print(f"{each.command} after {each.moment:.3f} s: exit code {each.code}\n{each.errors}")
    interrupted = sum(each.code == 130 for each in tries)
    print(f"{len(tries) - len(bad)} of {len(tries)} good: {interrupted} interrupted, the others had ended")
    return 1 if bad else 0


def interrupt_often(tries: int, seed: int, latest: float = 6.0) -> list[Try]:
    """The moments are drawn evenly in the logarithm: most of an import lies before the first second."""
    moments, found = random.Random(seed), []
    started = starting_time()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(tries):
            moment = started * (latest / started) ** moments.random()
            words = [word.replace("FOLDER", folder).format(i=i) for word in COMMANDS[i % len(COMMANDS)]]
            found.append(interrupt(words, moment, group=i // len(COMMANDS) % 2 == 1, folder=folder))
    return found


def starting_time() -> float:
    """Seconds until `main` runs: what the interpreter and the console script take before this library is asked."""
    code = "import time, os; before = float(os.environ['BEGUN']); import halfwave.cli; print(time.time() - before)"
    seconds = []
    for _ in range(3):
        environment = {**os.environ, "BEGUN": str(time.time())}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))
    return max(seconds) + 0.02


def interrupt(words: list[str], moment: float, group: bool, folder: str) -> Try:
    process = subprocess.Popen(
        [sys.executable, "-m", "halfwave", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a job in the background ignores
    )
    time.sleep(moment)
    if process.poll() is None:
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return Try(words[0], moment, process.returncode, errors)


if __name__ == "__main__":
    sys.exit(main())
