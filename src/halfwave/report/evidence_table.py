"""All comparison tables of the evidence as one tidy CSV: one figure of one row of one table per line."""

from __future__ import annotations

from pathlib import Path

from halfwave.files import write_csv
from halfwave.report.evidence import Evidence
from halfwave.report.summary import Comparison, Value

COLUMNS = ("experiment", "scale", "status", "row", "figure", "paper", "ours")


def write_table(path: Path, evidence: Evidence) -> None:
    """Write the CSV: values as they were measured, not rounded for reading; empty where there is none."""
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
