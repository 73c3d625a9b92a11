"""Evidence: what all result files of a scale say, as plain data that a page, a text and a table are written from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from halfwave.report.summary import Summary
from halfwave.report.verdict import VERDICTS

TITLE = "The paper's tables and figures, measured again"
STATUSES = (
    *VERDICTS,
    "incomplete",
    "changed by hand",
    "unreadable",
    "missing",
)
"""All that can be said of a claim: verdicts, and why there is none."""
SIGNS = dict(zip(STATUSES, ("✓", "◐", "✗", "?", "–", "…", "!", "!", "·"), strict=True))


@dataclass(frozen=True)
class Finding:
    """One experiment and what its result file says.

    Attributes:
        name, source, question, claim: of the experiment.
        command: makes the result, or goes on with it.
        summary: table, pictures and verdict of what was measured; None where the file is not as it was measured.
        status: one of `STATUSES`.
        problem: why there is no verdict, in one sentence.
        setting: what was measured, sentence by sentence.
        machines: what it was measured on, one line for each.
        dates: day and hour of each measurement, sorted.
        remark: what a reader must know of all figures: rows that other code or a changed tree has made.
        seconds: that measuring took.
    """

    name: str
    source: str
    question: str
    claim: str
    command: str
    status: str
    summary: Summary | None = None
    problem: str = ""
    setting: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    seconds: float = 0.0
    remark: str = ""

    @property
    def sentence(self) -> str:
        """The verdict, or why there is none."""
        return self.problem or ("" if self.summary is None else self.summary.verdict.sentence)

    @property
    def measured(self) -> str:
        """When, and how long that took."""
        return f"Measured {span(self.dates)}, {self.seconds:.0f} s"


@dataclass(frozen=True)
class Evidence:
    """All experiments at one scale, in the paper's order, those without a result included."""

    scale: str
    findings: tuple[Finding, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many findings have each status; the verdicts and `missing` also where there are none."""
        found = Counter(finding.status for finding in self.findings)
        return {status: found[status] for status in STATUSES if found[status] or status in (*VERDICTS, "missing")}

    @property
    def machines(self) -> tuple[str, ...]:
        """Each machine once."""
        return tuple(dict.fromkeys(machine for finding in self.findings for machine in finding.machines))

    @property
    def dates(self) -> str:
        """From the first measurement to the last."""
        return span(tuple(date for finding in self.findings for date in finding.dates))

    @property
    def untrusted(self) -> tuple[Finding, ...]:
        """Those whose file was changed after it was measured, or cannot be read."""
        return tuple(finding for finding in self.findings if finding.status in ("changed by hand", "unreadable"))


def span(dates: tuple[str, ...]) -> str:
    """First and last of some dates, as one text."""
    if not dates:
        return "no date"
    first, last = min(dates), max(dates)
    return first if first == last else f"{first} to {last}"
