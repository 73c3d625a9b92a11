"""Experiment: one table or figure of the paper, as its configurations, what is measured, and what the numbers say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Literal

from halfwave.errors import InputError
from halfwave.experiments.lab import RESULTS_VERSION, Lab, Training
from halfwave.report import Summary

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
Row = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A column of the result file. A `timing` differs from run to run; all others are the same every time."""

    name: str
    meaning: str
    timing: bool = False


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        name: on the command line; its module has underscores for dashes.
        source: where it is in the paper.
        question, claim: what is asked, and what the paper says; one sentence each.
        measures: columns of the result file, after the configuration's own fields.
        configurations: the points of a scale, frozen dataclasses of one type. Fields that are text or numbers become
            columns and the key; others (a `Training`) count for the hash alone.
        measure: rows of one configuration, {measure: value}; mostly one row.
        summarise: table, figure and verdict from all rows of the result file, and from nothing else.
        trainings: the trainings that a configuration needs, for the plan.
        version: raised when `measure` changes what it measures.
    """

    name: str
    source: str
    question: str
    claim: str
    measures: tuple[Measure, ...]
    configurations: Callable[[Scale], Sequence[Any]]
    measure: Callable[[Any, Lab], Sequence[Mapping[str, Any]]]
    summarise: Callable[[list[Row]], Summary]
    trainings: Callable[[Any], Sequence[Training]] = lambda configuration: ()
    version: int = 1

    def keyed(self, scale: Scale) -> dict[str, Any]:
        """The configurations of a scale by their keys."""
        configurations = self.configurations(scale)
        keyed = {key_of(configuration): configuration for configuration in configurations}
        if len(keyed) < len(configurations):
            raise ValueError(f"{self.name}: two configurations of scale {scale} have the same key")
        return keyed

    def digest(self, configuration: Any) -> str:
        """Hash of all that decides the numbers of a configuration."""
        content = [RESULTS_VERSION, self.name, self.version, asdict(configuration)]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def rows(self, configuration: Any, lab: Lab) -> list[Row]:
        """Measured rows as the result file has them: key, fields of the configuration, measures."""
        names = [measure.name for measure in self.measures]
        head = {"key": key_of(configuration), **scalars(configuration)}
        rows = []
        for found in self.measure(configuration, lab):
            if set(found) != set(names):
                raise ValueError(f"{self.name} measured {sorted(found)}, but its columns are {sorted(names)}")
            rows.append(head | {name: found[name] for name in names})
        return rows

    @property
    def timings(self) -> tuple[str, ...]:
        """Columns that differ from run to run."""
        return tuple(measure.name for measure in self.measures if measure.timing)


def scalars(configuration: Any) -> Row:
    """The fields of a configuration that are text or numbers."""
    assert is_dataclass(configuration), configuration
    values = {field.name: getattr(configuration, field.name) for field in fields(configuration)}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float | bool)}


def key_of(configuration: Any) -> str:
    """The stable name of a configuration within its experiment: "setting=HHH seed=0"."""
    return " ".join(f"{name}={value}" for name, value in scalars(configuration).items())


def check_scale(scale: str) -> Scale:
    """The scale called so; InputError with the accepted ones otherwise."""
    for known in SCALES:
        if scale == known:
            return known
    raise InputError(f"unknown scale {scale!r}: expected one of {', '.join(SCALES)}")
