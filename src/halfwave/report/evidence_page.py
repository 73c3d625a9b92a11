"""The evidence as one HTML page: an overview, then each experiment with table, pictures, verdict and setting."""

from __future__ import annotations

from halfwave.report.evidence import SIGNS, Evidence, Finding, span
from halfwave.report.figures import describe, draw
from halfwave.report.page import escape, items, page, picture, table
from halfwave.report.summary import Comparison, Line, Value, text_of

TITLE = "The paper's tables and figures, measured again"


def evidence_page(evidence: Evidence) -> str:
    """The page; it needs no network and no other file."""
    sections = [_section(finding, evidence.scale) for finding in evidence.findings]
    return page(f"{TITLE}: scale {evidence.scale}", "\n".join([_overview(evidence), *sections]))


def _overview(evidence: Evidence) -> str:
    counts = "".join(
        f'<li class="{_class(status)}"><b>{count}</b>{status}</li>' for status, count in evidence.counts.items()
    )
    listed = "".join(
        f'<li>{_badge(finding.status)}<a href="#{finding.name}">{finding.name}</a>'
        f"<span>{escape(finding.question)}</span></li>"
        for finding in evidence.findings
    )
    return f"""<h1 id="top">{escape(TITLE)}</h1>
<p>Mixed-precision neural operators with <b>halfwave</b>, scale <b>{escape(evidence.scale)}</b>,
measured {escape(evidence.dates)}.</p>
{items(evidence.machines)}
{_warning(evidence)}
<ul class="counts">{counts}</ul>
<p class="soft">Verdicts are computed from the numbers: <i>confirmed</i> means that every part of the paper's claim
holds in ours, at this scale and on this machine. Each result file carries checksums; one that was changed after it was
measured is named and not shown. In pictures, a cross at the axis stands for a value that is not finite.</p>
<h2>Overview</h2>
<ul class="list">{listed}</ul>"""


def _warning(evidence: Evidence) -> str:
    """Files that cannot be trusted come before any number."""
    return "".join(
        f'<p class="verdict {_class(finding.status)}" role="alert"><b>{finding.name}</b> '
        f"<span>{escape(finding.problem)}</span></p>"
        for finding in evidence.untrusted
    )


def _section(finding: Finding, scale: str) -> str:
    parts = [
        f'<section id="{finding.name}" aria-labelledby="{finding.name}-name">',
        f'<h2 id="{finding.name}-name">{finding.name}</h2>',
        f'<p class="soft">{escape(finding.source)}</p>',
        f"<p><b>{escape(finding.question)}</b></p>",
        f"<p>The paper: {escape(finding.claim)}</p>",
        f'<p class="verdict {_class(finding.status)}">{_badge(finding.status)} '
        f"<span>{escape(finding.sentence)}</span></p>",
        _measured(finding, scale),
        '<p class="small"><a href="#top">to the overview</a></p></section>',
    ]
    return "\n".join(parts)


def _measured(finding: Finding, scale: str) -> str:
    """Table, pictures and what they were made with; without a summary, the command alone."""
    command = f"<p>Made with <code>{escape(finding.command)}</code></p>"
    if finding.summary is None:
        return f"<p>To be made with <code>{escape(finding.command)}</code></p>"
    summary = finding.summary
    caption = f"{finding.name} at scale {scale}: the paper's figures beside ours"
    pictures = "".join(picture(draw([panel]), describe(panel)) for panel in summary.panels)
    setting = [*finding.setting, f"Measured {span(finding.dates)}, {finding.seconds:.0f} s", *finding.machines]
    return "\n".join(
        [
            comparison_table(caption, summary.comparison),
            items(summary.notes) if summary.notes else "",
            f'<div class="pictures">{pictures}</div>' if pictures else "",
            "<h3>Setting</h3>",
            command,
            items(setting),
        ]
    )


def comparison_table(caption: str, comparison: Comparison) -> str:
    """Two rows of heads: what is compared, and under it the paper and ours."""
    upper = "".join(f'<th rowspan="2" scope="col" class="label">{escape(label)}</th>' for label in comparison.labels)
    lower = ""
    for index, figure in enumerate(comparison.figures):
        if comparison.in_paper(index):
            upper += f'<th colspan="2" scope="colgroup" class="group gap">{escape(figure)}</th>'
            lower += '<th scope="col" class="gap">paper</th><th scope="col">ours</th>'
        else:
            upper += f'<th scope="col" class="gap">{escape(figure)}</th>'
            lower += '<th scope="col" class="gap">ours</th>'
    rows = "".join(_row(comparison, line) for line in comparison.lines)
    return table(caption, f"<tr>{upper}</tr><tr>{lower}</tr>", rows)


def _row(comparison: Comparison, line: Line) -> str:
    cells = "".join(f'<th scope="row">{escape(text_of(label))}</th>' for label in line.labels)
    for index, (paper, ours) in enumerate(zip(line.paper, line.ours, strict=True)):
        both = comparison.in_paper(index)
        cells += _cell(paper, "paper gap") if both else ""
        cells += _cell(ours, "ours" if both else "ours gap")
    return f"<tr>{cells}</tr>"


def _cell(value: Value, kind: str) -> str:
    return f'<td class="{kind}">{escape(text_of(value))}</td>'


def _badge(status: str) -> str:
    return f'<span class="badge {_class(status)}">{SIGNS[status]} {status}</span>'


def _class(status: str) -> str:
    return status.replace(" ", "-")
