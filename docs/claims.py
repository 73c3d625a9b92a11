"""Writes docs/claims.md: every part of every claim with its line and number, how it is checked, and what became of it.

    python docs/claims.py            # writes the page
    python docs/claims.py --check    # exits with 1 where the page is not what the experiments and results say

Verdicts are those of the result files in results/; a scale without a whole result of an experiment has a dash.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from halfwave.errors import InputError
from halfwave.experiments import SCALES, Experiment, Scale, get_experiment, read_results, summarise
from halfwave.experiments.claims import Part
from halfwave.experiments.registry import NAMES
from halfwave.report import SIGNS

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "claims.md", ROOT / "results"
SHOWN: tuple[Scale, ...] = tuple(scale for scale in SCALES if scale != "smoke")
HEAD = """# Every claim, in parts

Written by `python docs/claims.py` from the experiments and from the files in `results/`; a test fails when it is not
current. Lines are those of the paper's source; a part without a line is our own. A verdict is that of a check at the
paper's own threshold on the rows of a scale: ✓ confirmed, ✗ refuted, ? undetermined, – not testable here (with the
reason). Comparisons of trainings are paired by seed, with a 90% interval; accuracy is judged only where the model beats
the mean and a linear map, and where its error is at most ten times the rounding of its answer.
"""


def page() -> str:
    """The page as it should be."""
    experiments = [get_experiment(name) for name in NAMES]
    verdicts = {(e.name, scale): _verdicts(e, scale) for e in experiments for scale in SHOWN}
    parts = sum(len(experiment.parts) for experiment in experiments)
    untestable = sum(part.check is None for experiment in experiments for part in experiment.parts)
    counts = [f"{parts} parts of {len(experiments)} claims; {untestable} cannot be tested without other hardware."]
    for scale in SHOWN:
        found = Counter(sign for e in experiments for sign in verdicts[e.name, scale].values())
        if found:
            texts = ", ".join(f"{count} {sign}" for sign, count in sorted(found.items()))
            counts.append(f"At scale {scale}: {texts}.")
    sections = [_section(e, {scale: verdicts[e.name, scale] for scale in SHOWN}) for e in experiments]
    return "\n\n".join([HEAD.rstrip(), " ".join(counts), *sections]) + "\n"


def _verdicts(experiment: Experiment, scale: Scale) -> dict[str, str]:
    """Sign and status of each part by its statement; empty without a whole result."""
    if scale not in experiment.scales:
        return {}
    try:
        results = read_results(experiment, scale, RESULTS)
        if not results.rows:
            return {}
        summary = summarise(results)
    except InputError:
        return {}
    return {part.statement: f"{SIGNS[part.status]} {part.status}" for part in summary.verdict.parts}


def _section(experiment: Experiment, verdicts: dict[Scale, dict[str, str]]) -> str:
    shown = [scale for scale in SHOWN if verdicts[scale]]
    heads = ["part", "paper", "line", "checked by", *shown]
    rows = [_row(part, [verdicts[scale][part.statement] for scale in shown]) for part in experiment.parts]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows])
    return f"## {experiment.name}\n\n{experiment.source}. {experiment.claim}\n\n{table}"


def _row(part: Part, verdicts: list[str]) -> list[str]:
    how = f"not testable here: {part.reason}" if part.check is None else "rows"
    return [part.statement, part.paper or "our own", str(part.line or "-"), how, *verdicts]


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            raise SystemExit("docs/claims.md is not what the experiments and results say: run python docs/claims.py")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
