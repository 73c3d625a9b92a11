"""`halfwave report`: all results of a scale as one page, with the paper's figures beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from halfwave.commands.common import as_usage, log_console, results_console
from halfwave.errors import InputError
from halfwave.experiments import (
    Scale,
    check_scale,
    command_for,
    experiment_names,
    gather,
    get_experiment,
    scales_present,
)
from halfwave.files import check_no_input
from halfwave.report import SIGNS, Evidence, EvidenceFiles
from halfwave.tables import build_table

_PAGES = (".html", ".htm")


@dataclass
class Report:
    """Gathers results into one HTML page, Markdown with plots, and one CSV."""

    scale: str = ""
    """smoke, small, medium or paper; by default the largest that has results."""
    results: Path = Path("results")
    """Where `halfwave reproduce` put them."""
    out: Path | None = None
    """The page (.html), or a folder for report.html; .md, .csv and plots/ go beside it. By
    default RESULTS/SCALE."""

    def run(self) -> None:
        experiments = [get_experiment(name) for name in experiment_names()]
        present = scales_present(experiments, self.results)
        scale = self._scale(present)
        evidence = gather(experiments, scale, self.results)
        files = EvidenceFiles(self._page(scale))
        read = [self.results / scale / f"{name}{suffix}" for name in experiment_names() for suffix in (".csv", ".json")]
        for written in (files.page, files.markdown, files.table):
            check_no_input(written, *read)
        files.write(evidence)
        log = log_console()
        for finding in evidence.untrusted:
            log.print(f"{finding.name}: {finding.problem}", soft_wrap=True)
        others = [other for other in present if other != scale]
        if others and not self.scale:
            log.print(f"scale {scale}; there are results of {' and '.join(others)} too (--scale)", soft_wrap=True)
        _show(evidence, files)

    def _scale(self, present: list[Scale]) -> Scale:
        """The scale asked for, or the largest present; InputError that says what to run where it has no results."""
        asked = as_usage(lambda: check_scale(self.scale)) if self.scale else None
        if asked in present:
            return asked
        if asked is None and present:
            return present[0]
        where, wanted = (self.results / asked, asked) if asked else (self.results, "smoke")
        raise InputError(f"no results in {where}: run `{command_for('all', wanted, self.results)}` first")

    def _page(self, scale: Scale) -> Path:
        out = self.out or self.results / scale
        return out if out.suffix in _PAGES else out / "report.html"


def _show(evidence: Evidence, files: EvidenceFiles) -> None:
    """The overview, and where everything is."""
    console = results_console()
    rows = [(finding.name, f"{SIGNS[finding.status]} {finding.status}") for finding in evidence.findings]
    console.print(build_table(f"results at scale {evidence.scale}", ["experiment", "verdict"], [], rows))
    console.print(", ".join(f"{count} {status}" for status, count in evidence.counts.items()), soft_wrap=True)
    written = f"page: {files.page}, text: {files.markdown}, table: {files.table}, plots: {files.plots}"
    console.print(written, soft_wrap=True)
