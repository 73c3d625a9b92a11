"""The same quantity is the same number in every experiment that measures it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwave.experiments.experiment import Experiment, Scale
from halfwave.experiments.results import read_results


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
    """Quantities that two result files of a scale give different values. Rows of other code are not compared."""
    known: dict[str, tuple[str, Any]] = {}
    for experiment in experiments:
        if scale not in experiment.scales:
            continue
        results = read_results(experiment, scale, directory)
        if not results.rows:
            continue
        current = set(results.wanted) - set(results.to_measure)
        for key in current & results.rows.keys():
            for quantity, value in experiment.facts(results.wanted[key], results.rows[key]):
                if value is None:
                    continue
                name, before = known.setdefault(quantity, (experiment.name, value))
                if before != value:
                    yield Contradiction(quantity, (name, before), (experiment.name, value))
