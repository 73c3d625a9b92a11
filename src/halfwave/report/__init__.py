"""Tables, plots and pages, from result files only."""

from halfwave.report.bounds import draw_bounds, is_result
from halfwave.report.curves import draw_curves
from halfwave.report.demo import write_fields_figure, write_page
from halfwave.report.evidence import SIGNS, Evidence, Finding
from halfwave.report.evidence_files import EvidenceFiles
from halfwave.report.line_chart import Curve, LineChart
from halfwave.report.preview import BodyPictures, FieldPictures, save_preview
from halfwave.report.profile import draw_profile
from halfwave.report.rollout import animate_rollout, draw_rollout
from halfwave.report.run_page import Gallery, RunPage, Shot, ShownSample, run_page, write_run_page
from halfwave.report.summary import Comparison, Exhibit, Line, Panel, Series, Summary, Value, plus_minus, text_of
from halfwave.report.verdict import (
    CONFIRMED,
    REFUTED,
    UNDETERMINED,
    UNTESTABLE,
    VERDICTS,
    JudgedPart,
    Outcome,
    Verdict,
)

__all__ = [
    "CONFIRMED",
    "REFUTED",
    "SIGNS",
    "UNDETERMINED",
    "UNTESTABLE",
    "VERDICTS",
    "BodyPictures",
    "Comparison",
    "Curve",
    "Evidence",
    "EvidenceFiles",
    "Exhibit",
    "FieldPictures",
    "Finding",
    "Gallery",
    "JudgedPart",
    "Line",
    "LineChart",
    "Outcome",
    "Panel",
    "RunPage",
    "Series",
    "Shot",
    "ShownSample",
    "Summary",
    "Value",
    "Verdict",
    "animate_rollout",
    "draw_bounds",
    "draw_curves",
    "draw_profile",
    "draw_rollout",
    "is_result",
    "plus_minus",
    "run_page",
    "save_preview",
    "text_of",
    "write_fields_figure",
    "write_page",
    "write_run_page",
]
