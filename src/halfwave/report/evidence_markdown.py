"""The evidence as Markdown, with the pictures as files beside it."""

from __future__ import annotations

from halfwave.report.evidence import SIGNS, TITLE, Evidence, Finding
from halfwave.report.figures import describe
from halfwave.report.summary import Comparison, text_of


def evidence_markdown(evidence: Evidence, plots: str) -> str:
    """The text; `plots` is the folder of the pictures as seen from it."""
    counts = ", ".join(f"{count} {status}" for status, count in evidence.counts.items())
    head = [
        f"# {TITLE}",
        f"Scale {evidence.scale}, measured {evidence.dates}: {counts}.",
        _listed(evidence.machines),
        *(f"**{finding.name}**: {_plain(finding.problem)}" for finding in evidence.untrusted),
        _rows(
            ["verdict", "experiment", "question"],
            [[_badge(f), f"[{f.name}](#{f.name})", f.question] for f in evidence.findings],
        ),
    ]
    return "\n\n".join([*head, *(_section(finding, plots) for finding in evidence.findings)]) + "\n"


def _section(finding: Finding, plots: str) -> str:
    parts = [
        f"## {finding.name}",
        _plain(finding.source),
        f"**{_plain(finding.question)}**",
        f"The paper: {_plain(finding.claim)}",
        f"> {SIGNS[finding.status]} {_plain(finding.sentence)}",
    ]
    if finding.summary is None:
        return "\n\n".join([*parts, f"To be made with `{finding.command}`."])
    parts.append(comparison_rows(finding.summary.comparison))
    parts += [_plain(note) for note in finding.summary.notes]
    if finding.summary.panels:
        described = "; ".join(describe(panel) for panel in finding.summary.panels)
        parts.append(f"![{_plain(described)}]({plots}/{finding.name}.png)")
    parts.append(f"Made with `{finding.command}`.")
    parts.append(_listed((*finding.setting, finding.measured, *finding.machines)))
    return "\n\n".join(parts)


def comparison_rows(comparison: Comparison) -> str:
    """A comparison as a Markdown table; figures on the right."""
    rows = [[text_of(value) for value in row] for row in comparison.rows]
    return _rows(comparison.columns, rows, len(comparison.labels))


def _rows(columns: list[str], rows: list[list[str]], labels: int | None = None) -> str:
    labels = len(columns) if labels is None else labels
    rule = ["---"] * labels + ["---:"] * (len(columns) - labels)
    lines = [[_cell(text) for text in columns], rule, *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _badge(finding: Finding) -> str:
    return f"{SIGNS[finding.status]} {finding.status}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    """Text that Markdown takes as it is: stars, underscores and brackets mean themselves."""
    for mark in "\\*_[]<>`":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
