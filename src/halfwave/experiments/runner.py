"""run: measure what a result file does not have yet, one configuration after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from halfwave.errors import InputError
from halfwave.experiments.experiment import Experiment, Scale
from halfwave.experiments.lab import Lab
from halfwave.experiments.results import Results, read_results
from halfwave.numerics import on_threads
from halfwave.report import Summary
from halfwave.training import claimed, seed_all


def run(
    experiment: Experiment,
    scale: Scale,
    directory: str | Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = print,
) -> Results:
    """Write DIRECTORY/SCALE/NAME.csv; what is in it already is kept, what an interrupt left out is measured.

    Rows that somebody changed, and rows of other settings or an older version, are measured again. `say` hears of it.
    On a CPU one thread computes, so that the numbers are the same on any number of cores, and two experiments can run
    side by side; scale `paper` takes all there are.
    """
    results = read_results(experiment, scale, directory)
    for key in results.edited:
        say(f"{results.csv}: the row {key!r} was changed by hand (its checksum differs): it is measured again")
    untrusted = bool(results.edited)
    results.drop_untrusted()
    total, missing = len(experiment.keyed(scale)), results.missing
    lab = Lab(results.folder)
    threads = nullcontext() if scale == "paper" else on_threads(1)
    held = claimed(results.folder / ".runs" / f"experiment-{experiment.name}", f"measuring {experiment.name!r}")
    with threads, held:
        if untrusted:
            results.write()
        for done, key in enumerate(missing, start=total - len(missing)):
            progress(done, total)
            _measure(results, key, lab)
        progress(total, total)
    return results


def _measure(results: Results, key: str, lab: Lab) -> None:
    """One configuration; its random numbers do not depend on what was measured before it."""
    configuration = results.experiment.keyed(results.scale)[key]
    seed_all(0)
    start = time.monotonic()
    rows = results.experiment.rows(configuration, lab)
    results.add(key, configuration, rows, time.monotonic() - start)


def summarise(results: Results) -> Summary:
    """Table, figure and verdict of a whole result; InputError for one with rows missing or changed."""
    if results.edited:
        raise InputError(f"{results.csv} was changed by hand at {results.edited[0]!r}: run it again")
    if results.missing:
        raise InputError(f"{results.csv} is not complete ({results.state}): run it again to go on")
    return results.experiment.summarise(results.all_rows)
