"""The same quantity is the same number in every experiment that measures it, on machines of one kind.

A training on another kind of CPU sums in another order, and ends elsewhere, as it does from another seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwave.experiments.experiment import Experiment, Scale
from halfwave.experiments.results import read_results
from halfwave.experiments.vouching import machine_of


@dataclass(frozen=True)
class Contradiction:
    """A quantity with two values, and the experiments that say so."""

    quantity: str
    first: tuple[str, Any]
    second: tuple[str, Any]

    def __str__(self) -> str:
        (one, a), (other, b) = self.first, self.second
        return f"{self.quantity}: {a} in {one}, {b} in {other}"


def contradictions(experiments: Iterable[Experiment], scale: Scale, directory: str | Path) -> Iterator[Contradiction]:
    """Quantities that two result files of a scale give different values; rows of other code are not compared."""
    known: dict[tuple[str, str], tuple[str, Any]] = {}
    for experiment in experiments:
        if scale not in experiment.scales:
            continue
        results = read_results(experiment, scale, directory)
        if not results.rows:
            continue
        current = set(results.wanted) - set(results.to_measure)
        machines = [machine_of(environment) for environment in results.record["environments"]]
        for key in current & results.rows.keys():
            machine = machines[results.record["rows"][key]["environment"]]
            for quantity, value in experiment.facts(results.wanted[key], results.rows[key]):
                if value is None:
                    continue
                name, before = known.setdefault((quantity, machine), (experiment.name, value))
                if before != value:
                    yield Contradiction(quantity, (name, before), (experiment.name, value))
