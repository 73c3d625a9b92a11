"""The gate before verdicts on accuracy: has the model learnt anything, and could rounding be seen at its error?

A model that is no better than the mean or a linear map of its dataset has nothing for precision to take away. And
rounding that moves an answer by ρ, independent of the model's error e, raises that to e sqrt(1 + (ρ/e)²): at e = 10 ρ
by half a percent, at e = 100 ρ by 0.005%. So a training whose error is more than ten times the rounding of its answer
says nothing about rounding, however close its error is to full precision's.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from halfwave.report import UNDETERMINED, Outcome

LARGEST_RATIO = 10.0
"""Error over rounding of the answer beyond which nothing can be told."""


def closed(full: Sequence[Mapping[str, Any]], rounded: Sequence[Mapping[str, Any]]) -> str:
    """Why rows of full precision and of a rounded method cannot tell about rounding; "" where they can.

    `full` has the columns l2, mean_l2 and linear_l2; `rounded` has `rounding`, the relative distance of its answer
    from that of the same weights in full precision.
    """
    unlearnt = not_learnt(full)
    if unlearnt:
        return unlearnt
    error, roundings = _mean(full, "l2"), [row["rounding"] for row in rounded if row["rounding"]]
    if error is None or not roundings:
        return "nothing is rounded"
    ratio = error / statistics.fmean(roundings)
    return f"full's L2 {error:.3g} is {ratio:.0f} times the rounding of an answer" if ratio > LARGEST_RATIO else ""


def not_learnt(full: Sequence[Mapping[str, Any]]) -> str:
    """Why a model in full precision has learnt too little to be compared: it is no better than a predictor without
    a network; "" where it is."""
    error = _mean(full, "l2")
    if error is None:
        return "full precision diverged"
    for name in ("mean", "linear"):
        baseline = _mean(full, f"{name}_l2")
        if baseline is not None and error >= baseline:
            return f"full's L2 {error:.3g} is no better than the {name} predictor's {baseline:.3g}"
    return ""


def behind_gate(outcome: Outcome, why: str) -> Outcome:
    """The outcome, or that nothing can be told at this error, with its numbers."""
    return outcome if not why else Outcome(UNDETERMINED, f"{outcome.clause}: cannot be told at this error ({why})")


def _mean(rows: Sequence[Mapping[str, Any]], column: str) -> float | None:
    values = [row[column] for row in rows]
    return None if not values or any(value is None for value in values) else statistics.fmean(values)
