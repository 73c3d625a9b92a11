"""Experiment: one table or figure of the paper, as its configurations, what is measured, and what the numbers say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Literal

from halfwave.errors import InputError
from halfwave.experiments.claims import Part, judge_parts
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.provenance import code_digest
from halfwave.report import Exhibit, Summary

Scale = Literal["smoke", "small", "medium", "paper"]
"""smoke: it runs; small: minutes; medium: errors at which rounding can be seen, hours; paper: its own size."""
SCALES: tuple[Scale, ...] = ("smoke", "small", "medium", "paper")
WITHOUT_MEDIUM: tuple[Scale, ...] = ("smoke", "small", "paper")
Row = dict[str, Any]
Fact = tuple[str, Any]
"""A quantity by a name that is the same in every experiment that measures it, and its value."""


@dataclass(frozen=True)
class Measure:
    """A column of the result file. A `timing` differs from run to run; all others are the same every time."""

    name: str
    meaning: str
    timing: bool = False


PEAK_MEMORY = Measure("peak_memory_bytes", "largest sum of live tensors in a training step")
ACTIVATIONS = Measure("activation_bytes", "without parameters, gradients, optimizer state and batch")
STEP_MEMORY = (PEAK_MEMORY, ACTIVATIONS)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        name: on the command line; its module has underscores for dashes.
        source: where it is in the paper.
        question, claim: what is asked, and what the paper says; one sentence each.
        parts: the claim in parts, each with the paper's number, its line and a check.
        measures: columns of the result file, after the configuration's own fields.
        configurations: the points of a scale, frozen dataclasses of one type. Fields that are text or numbers become
            columns and the key; others (a `Training`) count for the hash alone.
        measure: rows of one configuration, {measure: value}; mostly one row.
        exhibit: table and pictures from all rows of the result file, and from nothing else.
        trainings: the trainings that a configuration needs, for the plan.
        further: configurations that the rows so far ask for: the stopping rule of the seeds.
        facts: what rows of a configuration say that other experiments measure too, by names that they share.
        scales: at which it can be run.
    """

    name: str
    source: str
    question: str
    claim: str
    parts: tuple[Part, ...]
    measures: tuple[Measure, ...]
    configurations: Callable[[Scale], Sequence[Any]]
    measure: Callable[[Any, Lab], Sequence[Mapping[str, Any]]]
    exhibit: Callable[[list[Row]], Exhibit]
    trainings: Callable[[Any], Sequence[Training]] = lambda configuration: ()
    further: Callable[[Scale, list[Row]], Sequence[Any]] = lambda scale, rows: ()
    facts: Callable[[Any, list[Row]], Iterable[Fact]] = lambda configuration, rows: ()
    scales: tuple[Scale, ...] = WITHOUT_MEDIUM

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError(f"{self.name} has no parts: a claim that nothing checks says nothing")

    def keyed(self, scale: Scale, rows: list[Row] | None = None) -> dict[str, Any]:
        """The configurations of a scale by their keys, those included that `rows` ask for."""
        configurations = [*self.configurations(scale), *(self.further(scale, rows) if rows else ())]
        keyed = {key_of(configuration): configuration for configuration in configurations}
        if len(keyed) < len(configurations):
            raise ValueError(f"{self.name}: two configurations of scale {scale} have the same key")
        return keyed

    def digest(self, configuration: Any) -> str:
        """Hash of all settings that decide the numbers of a configuration."""
        content = [self.name, asdict(configuration)]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def code(self) -> str:
        """Digest of the source that measuring runs."""
        return code_digest(self.measure)

    def summary(self, rows: list[Row]) -> Summary:
        """What all rows of a result file show, and what they say of the claim."""
        return Summary(self.exhibit(rows), judge_parts(self.parts, rows))

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
