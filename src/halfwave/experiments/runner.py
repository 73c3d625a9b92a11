"""run: measure what a result file does not have yet, one configuration after the other.

Any number of processes may run the same experiments at the same time: each row, and each training behind it, is one
process's at a time, and a result file is read again before a row is added to it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from halfwave.errors import InputError
from halfwave.experiments.experiment import Experiment, Scale
from halfwave.experiments.lab import Lab
from halfwave.experiments.results import Results, read_results
from halfwave.files import held, remove_leftovers
from halfwave.numerics import on_threads
from halfwave.report import Summary
from halfwave.training import seed_all

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Bench:
    """One experiment at one scale in a results directory, shared with other processes."""

    experiment: Experiment
    scale: Scale
    directory: Path

    @property
    def folder(self) -> Path:
        return self.directory / self.scale

    def read(self) -> Results:
        return read_results(self.experiment, self.scale, self.directory)

    def measure_next(self, lab: Lab) -> bool | None:
        """Measure one row; False where others measure all that is left, None where nothing is."""
        due = self.read().to_measure
        if not due:
            return None
        return any(self._measure(key, lab) for key in due)

    def _measure(self, key: str, lab: Lab) -> bool:
        """One configuration, unless another process has it or a training of it; was it measured?"""
        with held(self._lock(key), wait=False) as mine:
            results = self.read()
            if not mine or key not in results.to_measure:
                return False
            configuration = results.wanted[key]
            if any(lab.is_busy(training) for training in self.experiment.trainings(configuration)):
                return False
            seed_all(0)  # its random numbers do not depend on what was measured before it
            start = time.monotonic()
            rows = self.experiment.rows(configuration, lab)
            seconds = time.monotonic() - start
            with self._writing():
                self.read().add(key, configuration, rows, seconds)
        return True

    def drop_edits(self, say: Callable[[str], None]) -> None:
        """Forget rows that were changed by hand, and say so."""
        with self._writing():
            remove_leftovers(self.folder, f"{self.experiment.name}.")
            results = self.read()
            for key in results.edited:
                say(f"{results.csv}: the row {key!r} was changed by hand (its checksum differs): it is measured again")
            if results.edited:
                results.drop_untrusted()
                results.write()

    def _writing(self) -> AbstractContextManager[bool]:
        return held(self.folder / ".locks" / f"{self.experiment.name}.lock", wait=True)

    def _lock(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        return self.folder / ".locks" / f"{self.experiment.name}-{name}.lock"


def run(
    experiment: Experiment,
    scale: Scale,
    directory: str | Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = print,
    wait: bool = True,
) -> Results:
    """Write DIRECTORY/SCALE/NAME.csv; what is in it already is kept, what an interrupt left out is measured.

    Rows that somebody changed, and rows of other settings or other code, are measured again. `say` hears of it.
    On a CPU one thread computes, so that the numbers are the same on any number of cores, and two processes can run
    side by side; scale `paper` takes all there are. Without `wait` it returns while others measure the last rows.
    """
    bench = Bench(experiment, scale, Path(directory))
    bench.drop_edits(say)
    lab = Lab(bench.folder)
    with nullcontext() if scale == "paper" else on_threads(1):
        while True:
            results = bench.read()
            progress(len(results.wanted) - len(results.to_measure), len(results.wanted))
            measured = bench.measure_next(lab)
            if measured is None or (not measured and not wait):
                return bench.read()
            if not measured:
                time.sleep(_POLL_SECONDS)


def summarise(results: Results) -> Summary:
    """Table, pictures and verdict of a whole result; InputError for one with rows missing or changed."""
    if results.edited:
        raise InputError(f"{results.csv} was changed by hand at {results.edited[0]!r}: run it again")
    if results.missing:
        raise InputError(f"{results.csv} is not complete ({results.state}): run it again to go on")
    return results.experiment.summary(results.measured_rows)
