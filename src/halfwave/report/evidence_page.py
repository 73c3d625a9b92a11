"""The evidence as one HTML page: an overview, then each experiment with table, pictures, verdict and setting."""

from __future__ import annotations

from halfwave.report.evidence import SIGNS, Evidence
from halfwave.report.figures import describe, draw
from halfwave.report.page import Picture, render
from halfwave.report.summary import Panel, text_of

TITLE = "The paper's tables and figures, measured again"


def evidence_page(evidence: Evidence) -> str:
    """The page; it needs no network and no other file."""
    return render("evidence.html", heading=TITLE, evidence=evidence, signs=SIGNS, text_of=text_of, drawn=_drawn)


def _drawn(panel: Panel) -> Picture:
    return Picture(draw([panel]), describe(panel))
