"""The paper's methods over problems and seeds: what experiments that compare them share.

Rows are those of result files; a value is None where a training diverged.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from halfwave.experiments.experiment import Row, Scale
from halfwave.experiments.lab import Trained
from halfwave.report import Check, plus_minus

LABELS = {
    "full": "full",
    "amp": "AMP",
    "half": "half-precision FNO",
    "mixed": "mixed (the method)",
    "schedule": "precision schedule",
}
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1, 2), "paper": (0, 1, 2)}
# How far mixed precision's error may be above full precision's, in percent. The paper says 1% after 500 epochs; runs of
# a dozen epochs differ by more from seed to seed.
TOLERANCE = 2.0


def errors_of(trained: Trained) -> dict[str, float | None]:
    """Final test errors; None where a training diverged, and for H1 on point clouds."""
    result = trained.result
    return {"l2": None, "h1": None} if result is None else {"l2": result.l2, "h1": result.h1}


def seconds_per_epoch(trained: Trained, policy: str | None = None) -> float | None:
    """Median over epochs, or over those under one policy of a schedule."""
    seconds = [row["seconds"] for row in trained.epochs if policy is None or row["policy"].startswith(policy)]
    return statistics.median(seconds) if seconds else None


def select(rows: Sequence[Row], **fields: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def values_of(rows: Sequence[Row], column: str) -> list[float]:
    """A column over seeds; empty unless every row has it, as a mean over those that survived would flatter."""
    values = [row[column] for row in rows]
    return [] if any(value is None for value in values) else values


def mean(rows: Sequence[Row], column: str) -> float | None:
    values = values_of(rows, column)
    return statistics.fmean(values) if values else None


def deviation(rows: Sequence[Row], column: str) -> float:
    """Sample deviation over seeds; 0 for a single one."""
    values = values_of(rows, column)
    return statistics.stdev(values) if len(values) > 1 else 0.0


def with_deviation(rows: Sequence[Row], column: str) -> str | None:
    """Mean and deviation for a table."""
    values = values_of(rows, column)
    return plus_minus(values) if values else None


def excess(value: float | None, reference: float | None) -> float | None:
    """By how many percent `value` is above `reference`."""
    return None if value is None or reference is None else 100 * (value / reference - 1)


def check_close(
    what: str, pairs: Mapping[str, tuple[float | None, float | None]], limit: float = TOLERANCE
) -> tuple[Check, ...]:
    """At most `limit` percent above the reference, for each of `pairs`, {where: (value, reference)}.

    One clause for all that hold and one for all that do not: "mixed's error against full's is +0.6% on Darcy flow".
    """
    percents = {where: excess(*pair) for where, pair in pairs.items()}
    held = {where: percent for where, percent in percents.items() if percent is not None and percent <= limit}
    failed = {where: percent for where, percent in percents.items() if where not in held}
    return tuple(
        Check(holds, f"{what} against full's is {_listed(found)}")
        for holds, found in ((True, held), (False, failed))
        if found
    )


def _listed(percents: Mapping[str, float | None]) -> str:
    """ "+0.6% on Darcy flow and -0.1% on Navier-Stokes"; one that diverged has no number."""
    parts = [f"{_signed(percent)} {where}" for where, percent in percents.items()]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _signed(percent: float | None) -> str:
    # Adding zero turns a rounded -0.0 into 0.0.
    return "lost" if percent is None else f"{round(percent, 1) + 0.0:+.1f}%"
