"""Verdict: what the numbers say of a claim, part by part; the badge of the whole is computed from its parts."""

from __future__ import annotations

from dataclasses import dataclass

CONFIRMED, REFUTED, UNDETERMINED, UNTESTABLE = "confirmed", "refuted", "undetermined", "not testable here"
PART_STATUSES = (CONFIRMED, REFUTED, UNDETERMINED, UNTESTABLE)
"""Of a part: it holds, it does not, the numbers cannot tell, or nothing that can be run here would."""
IN_PART = "in part"
VERDICTS = (CONFIRMED, IN_PART, REFUTED, UNDETERMINED, UNTESTABLE)
"""Of a whole claim."""


@dataclass(frozen=True)
class Outcome:
    """What a check found: one of `PART_STATUSES`, and a clause with the numbers ("memory fell by 48%")."""

    status: str
    clause: str

    def __post_init__(self) -> None:
        if self.status not in PART_STATUSES:
            raise ValueError(f"unknown status {self.status!r}: expected one of {', '.join(PART_STATUSES)}")

    @classmethod
    def of(cls, holds: bool, clause: str) -> Outcome:
        """Confirmed or refuted: for what is counted or planned, and has no error of measurement."""
        return cls(CONFIRMED if holds else REFUTED, clause)


@dataclass(frozen=True)
class JudgedPart:
    """A part of a claim with what became of it: the paper's words and number, its line in `paper.tex`, the outcome."""

    statement: str
    paper: str
    line: int | None
    outcome: Outcome

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def where(self) -> str:
        """The paper's number and its line; our own experiments have no line."""
        place = "" if self.line is None else f"line {self.line}"
        return ", ".join(text for text in (self.paper, place) if text)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim was confirmed: only if each of its parts that can be tested here was."""

    parts: tuple[JudgedPart, ...]

    @property
    def status(self) -> str:
        testable = [part.status for part in self.parts if part.status != UNTESTABLE]
        if not testable:
            return UNTESTABLE
        if CONFIRMED not in testable:
            return REFUTED if REFUTED in testable else UNDETERMINED
        return CONFIRMED if set(testable) == {CONFIRMED} else IN_PART

    @property
    def sentence(self) -> str:
        """What was refuted comes first, then what could not be told, then what held."""
        order = (REFUTED, UNDETERMINED, CONFIRMED, UNTESTABLE)
        groups = {status: [part.outcome.clause for part in self.parts if part.status == status] for status in order}
        return " ".join(
            f"{status.capitalize()} ({len(clauses)} of {len(self.parts)} parts): {'; '.join(clauses)}."
            for status, clauses in groups.items()
            if clauses
        )
