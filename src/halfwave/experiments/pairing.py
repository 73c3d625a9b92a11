"""Two trainings compared seed by seed: ln of their ratio, its 90% interval, and what that says at a threshold.

The seed decides data and first weights of both, so what they share cancels:

    d_s = ln(a_s / b_s),    mean(d) ± t sd(d) / sqrt(n),    t of Student's law with n - 1 degrees at 95%

Equivalence is two one-sided tests at 5%: the 90% interval lies within ± ln(1 + margin). An interval that is too wide is
undetermined, so that noise never makes a clause easier to pass.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import t as student

from halfwave.report import CONFIRMED, REFUTED, UNDETERMINED, Outcome

CONFIDENCE = 0.9
MARGIN = 1.0
"""Percent within which the paper says that errors agree (lines 366 and 384)."""
WIDEST = 2.0
"""Percent: no further seeds are asked for once the interval is this narrow."""


@dataclass(frozen=True)
class Paired:
    """ln(a / b) for each seed."""

    differences: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.differences)

    @property
    def half_width(self) -> float:
        """Of the interval; infinite for a single pair."""
        count = len(self.differences)
        if count < 2:
            return math.inf
        quantile = float(student.ppf(0.5 + CONFIDENCE / 2, count - 1))
        return quantile * statistics.stdev(self.differences) / math.sqrt(count)

    @property
    def interval(self) -> tuple[float, float]:
        return self.mean - self.half_width, self.mean + self.half_width

    @property
    def percent(self) -> float:
        """The mean as a change in percent."""
        return 100 * math.expm1(self.mean)

    @property
    def is_narrow(self) -> bool:
        """Whether the stopping rule is content."""
        return 2 * self.half_width <= math.log1p(WIDEST / 100)

    def __str__(self) -> str:
        low, high = (100 * math.expm1(edge) if math.isfinite(edge) else math.inf for edge in self.interval)
        if len(self.differences) < 2:
            return f"{_signed(self.percent)} (one seed)"
        return f"{_signed(self.percent)} [{_signed(low)}, {_signed(high)}], {len(self.differences)} seeds"

    def within(self, what: str, margin: float = MARGIN) -> Outcome:
        """Equal to `margin` percent, by two one-sided tests."""
        low, high = self.interval
        edge = math.log1p(margin / 100)
        if -edge < low and high < edge:
            return Outcome(CONFIRMED, f"{what} {self}")
        outside = low > edge or high < -edge
        return Outcome(REFUTED if outside else UNDETERMINED, f"{what} {self}")

    def at_most(self, what: str, percent: float) -> Outcome:
        """Above by no more than so many percent."""
        return self._against(what, percent, above=False)

    def below(self, what: str, percent: float = 0.0) -> Outcome:
        """Lower than by so many percent."""
        return self._against(what, -percent, above=False)

    def above(self, what: str, percent: float = 0.0) -> Outcome:
        """Higher by more than so many percent."""
        return self._against(what, percent, above=True)

    def _against(self, what: str, percent: float, above: bool) -> Outcome:
        low, high = self.interval
        edge = math.log1p(percent / 100)
        over, under = low > edge, high < edge
        status = UNDETERMINED if not (over or under) else CONFIRMED if over == above else REFUTED
        return Outcome(status, f"{what} {self}")


def pair(rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], column: str) -> Paired | None:
    """The seeds that both have; None where there are none, or where a value of a shared seed was lost."""
    by_seed = {row["seed"]: row[column] for row in others}
    pairs = [(row[column], by_seed[row["seed"]]) for row in rows if row["seed"] in by_seed]
    if not pairs or any(not value for couple in pairs for value in couple):
        return None
    return Paired(tuple(math.log(a / b) for a, b in pairs))


def _signed(percent: float) -> str:
    # Adding zero turns a rounded -0.0 into 0.0.
    digits = 2 if abs(percent) < 1 else 1
    return f"{round(percent, digits) + 0.0:+.{digits}f}%"
