"""Claims in parts: each sentence and number of the paper that an experiment tests, with its line and its check.

A check is a function of the rows of a result file at the paper's own threshold; where nothing that can be run here
would tell, a reason stands in its place. `halfwave.report.Verdict` computes the badge of the whole from the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.report import CONFIRMED, REFUTED, UNDETERMINED, UNTESTABLE, JudgedPart, Outcome, Verdict

Row = Mapping[str, Any]
Check = Callable[[list[dict[str, Any]]], Outcome | None]
_MOST_SHOWN = 3
NOT_MEASURED = Outcome(UNDETERMINED, "not measured at this scale")


@dataclass(frozen=True)
class Part:
    """One part of a claim.

    Attributes:
        statement: what the paper says, in one clause.
        paper: its number, or its words where it gives none; "" for a claim of our own.
        line: in `paper.tex`; None for a claim of our own.
        check: what the rows say of it; None where they do not have what it needs.
        reason: why it cannot be tested here, instead of a check.
    """

    statement: str
    paper: str = ""
    line: int | None = None
    check: Check | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.check is None) == (not self.reason):
            raise ValueError(f"the part {self.statement!r} needs a check, or a reason why there is none")

    def judge(self, rows: list[dict[str, Any]]) -> JudgedPart:
        """The part with what these rows say of it."""
        return JudgedPart(self.statement, self.paper, self.line, self._outcome(rows))

    def _outcome(self, rows: list[dict[str, Any]]) -> Outcome:
        if self.check is None:
            return Outcome(UNTESTABLE, f"{self.statement} ({self.reason})")
        return self.check(rows) or NOT_MEASURED


def judge_parts(parts: Iterable[Part], rows: list[dict[str, Any]]) -> Verdict:
    """The verdict on a claim."""
    return Verdict(tuple(part.judge(rows) for part in parts))


def all_of(outcomes: Iterable[Outcome | None], what: str = "") -> Outcome | None:
    """One outcome of several that must all hold: refuted if one is, confirmed if all are; None without any."""
    known = [outcome for outcome in outcomes if outcome is not None]
    if not known:
        return None
    statuses = {outcome.status for outcome in known}
    status = REFUTED if REFUTED in statuses else CONFIRMED if statuses == {CONFIRMED} else UNDETERMINED
    telling = [outcome.clause for outcome in known if outcome.status == status]
    count = f"{what}, {len(telling)} of {len(known)}: " if what else ""
    shown = [
        *telling[:_MOST_SHOWN],
        *([f"and {len(telling) - _MOST_SHOWN} more"] if len(telling) > _MOST_SHOWN else []),
    ]
    return Outcome(status, count + "; ".join(shown))


NEEDS_GPU = "a figure of the paper's GPUs, which no CPU tells"
