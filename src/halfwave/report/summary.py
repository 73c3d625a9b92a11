"""What a result says: a table with the paper's figures beside ours, pictures, and a verdict computed from numbers.

Plain data, made by the experiments from their result files and shown by the report and the command line.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from halfwave.report.verdict import Verdict

Value = float | int | str | None
Style = Literal["line", "dashed", "points", "bars", "balls"]


@dataclass(frozen=True)
class Line:
    """A row of a `Comparison`: its labels, then each figure in the paper (None where it gives none) and measured."""

    labels: tuple[Value, ...]
    paper: tuple[Value, ...]
    ours: tuple[Value, ...]


@dataclass(frozen=True)
class Comparison:
    """The table: `labels` name its leading columns, `figures` what is compared, paper and ours side by side."""

    labels: tuple[str, ...]
    figures: tuple[str, ...]
    lines: tuple[Line, ...]

    def __post_init__(self) -> None:
        for line in self.lines:
            shape = len(line.labels), len(line.paper), len(line.ours)
            if shape != (len(self.labels), len(self.figures), len(self.figures)):
                raise ValueError(f"{line} does not fit the columns {self.labels} and {self.figures}")

    @property
    def columns(self) -> list[str]:
        """Heads of the flat table; a figure that the paper never gives has no column of the paper."""
        heads = list(self.labels)
        for index, figure in enumerate(self.figures):
            heads += [f"{figure}, paper", f"{figure}, ours"] if self.in_paper(index) else [figure]
        return heads

    @property
    def rows(self) -> list[list[Value]]:
        """The flat table's rows, in the order of `columns`."""
        return [self._row(line) for line in self.lines]

    def _row(self, line: Line) -> list[Value]:
        row = list(line.labels)
        for index, ours in enumerate(line.ours):
            row += [line.paper[index], ours] if self.in_paper(index) else [ours]
        return row

    def in_paper(self, index: int) -> bool:
        """Whether the paper gives this figure for any line."""
        return any(line.paper[index] is not None for line in self.lines)


@dataclass(frozen=True)
class Series:
    """One set of points of a panel. `error` draws bars of deviation, `size` areas of balls; x may be categories.

    `name` is what the same series is called in every panel, where labels differ by a figure of their own.
    """

    label: str
    x: Sequence[float | str]
    y: Sequence[float]
    style: Style = "line"
    error: Sequence[float] | None = None
    size: Sequence[float] | None = None
    name: str = ""

    @property
    def called(self) -> str:
        return self.name or self.label


@dataclass(frozen=True)
class Panel:
    """One pair of axes; with `yzero` y begins at zero, so that a difference looks as small as it is."""

    title: str
    xlabel: str
    ylabel: str
    series: tuple[Series, ...]
    xlog: bool = False
    ylog: bool = False
    yzero: bool = False


@dataclass(frozen=True)
class Exhibit:
    """What an experiment shows of its rows; `notes` say how ours differs from the paper's setting."""

    comparison: Comparison
    panels: tuple[Panel, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summary:
    """Everything that is said of one experiment: what it shows, and what that means for the claim."""

    exhibit: Exhibit
    verdict: Verdict

    @property
    def comparison(self) -> Comparison:
        return self.exhibit.comparison

    @property
    def panels(self) -> tuple[Panel, ...]:
        return self.exhibit.panels

    @property
    def notes(self) -> tuple[str, ...]:
        return self.exhibit.notes


def text_of(value: Value) -> str:
    """A value as a reader wants it: four significant digits, a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return str(value)


def plus_minus(values: Sequence[float]) -> str:
    """Mean and sample deviation over seeds."""
    mean = statistics.fmean(values)
    return f"{mean:.4g} ± {statistics.stdev(values):.1g}" if len(values) > 1 else f"{mean:.4g}"
