"""The evidence as files: page, Markdown, CSV and pictures, all under one name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from halfwave.files import write_csv, written_aside
from halfwave.report.evidence import SIGNS, TITLE, Evidence
from halfwave.report.evidence_markdown import evidence_markdown
from halfwave.report.figures import describe, draw
from halfwave.report.page import Picture, render, write_text
from halfwave.report.summary import Comparison, Panel, Value, text_of

COLUMNS = ("experiment", "scale", "status", "row", "figure", "paper", "ours")


@dataclass(frozen=True)
class EvidenceFiles:
    """Where the evidence goes: `page`, and beside it the same name as .md and .csv, and the folder plots/."""

    page: Path

    @property
    def markdown(self) -> Path:
        return self.page.with_suffix(".md")

    @property
    def table(self) -> Path:
        return self.page.with_suffix(".csv")

    @property
    def plots(self) -> Path:
        return self.page.parent / "plots"

    def write(self, evidence: Evidence) -> None:
        """Replace all of them; a picture of the last report whose result is gone goes too."""
        last = self.markdown.read_text(encoding="utf-8", errors="replace") if self.markdown.exists() else ""
        for finding in evidence.findings:
            path = self.plots / f"{finding.name}.png"
            if finding.summary is None or not finding.summary.panels:
                if f"({self.plots.name}/{path.name})" in last:
                    path.unlink(missing_ok=True)
                continue
            with written_aside(path) as aside:
                aside.write_bytes(draw(finding.summary.panels))
        _write_table(self.table, evidence)
        write_text(self.markdown, evidence_markdown(evidence, self.plots.name))
        write_text(self.page, evidence_page(evidence))


def evidence_page(evidence: Evidence) -> str:
    """An overview, then each experiment with table, pictures, verdict and setting; needs no network, no other file."""
    return render("evidence.html", heading=TITLE, evidence=evidence, signs=SIGNS, text_of=text_of, drawn=_drawn)


def _drawn(panel: Panel) -> Picture:
    return Picture(draw([panel]), describe(panel))


def _write_table(path: Path, evidence: Evidence) -> None:
    """One figure of one row of one table per line; values as measured, not rounded, and empty where there is none."""
    rows = [
        {"experiment": finding.name, "scale": evidence.scale, "status": finding.status, **row}
        for finding in evidence.findings
        if finding.summary is not None
        for row in _tidy(finding.summary.comparison)
    ]
    write_csv(path, COLUMNS, rows)


def _tidy(comparison: Comparison) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for line in comparison.lines:
        name = "; ".join(f"{label}={value}" for label, value in zip(comparison.labels, line.labels, strict=True))
        for figure, paper, ours in zip(comparison.figures, line.paper, line.ours, strict=True):
            rows.append({"row": name, "figure": figure, "paper": paper, "ours": ours})
    return rows
