"""The evidence as files: page, Markdown, CSV and pictures, all under one name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from halfwave.files import written_aside
from halfwave.report.evidence import Evidence
from halfwave.report.evidence_markdown import evidence_markdown
from halfwave.report.evidence_page import evidence_page
from halfwave.report.evidence_table import write_table
from halfwave.report.figures import draw
from halfwave.report.page import write_text


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
        write_table(self.table, evidence)
        write_text(self.markdown, evidence_markdown(evidence, self.plots.name))
        write_text(self.page, evidence_page(evidence))
