"""Evidence that nobody measured: every status, every style of picture, names and numbers that are hard to show."""

import math

from halfwave.report.evidence import Evidence, Finding
from halfwave.report.summary import Comparison, Exhibit, Line, Panel, Series, Summary
from halfwave.report.verdict import JudgedPart, Outcome, Verdict

METHODS = ("full", "amp", "half", "mixed")
DATASETS = ("Navier-Stokes", "Darcy flow", "spherical SWE", "Shape-Net Car", "Ahmed body")
SLANTED = ("hard-clip", "2-sigma-clip", "tanh", "none", "normalised by its variance", "by 10", "by 100", "by 1000")


def panels():
    modes = (16, 32, 64, 128)
    return (
        Panel(
            "memory of a training step, five datasets and four methods",
            "",
            "MB",
            tuple(Series(m, DATASETS, (1.0, 2.0, 3.0, 4.0, math.inf), "bars", error=(0.1,) * 5) for m in METHODS),
        ),
        Panel("stabilizers", "", "L2", (Series("ours", SLANTED, (1, 2, 3, math.nan, 5, 6, 7, 8), "bars"),)),
        Panel(
            "modes",
            "modes",
            "L2",
            (Series("full", modes, (0.4, 0.3, 0.2, 0.2)), Series("bound", modes, (4.0, 3.0, 2.0, 1.0), "dashed")),
            xlog=True,
            ylog=True,
        ),
        Panel(
            "balls",
            "MB",
            "L2",
            tuple(Series(m, (1.0 + i,), (2.0,), "balls", size=(i + 1.0,)) for i, m in enumerate("ab")),
        ),
    )


def comparison():
    lines = tuple(
        Line((dataset, method), (None, 0.01 * i), ("diverged", 1 / 3 + i))
        for dataset in DATASETS
        for i, method in enumerate(METHODS)
    )
    return Comparison(("dataset", "method | <precision>"), ("reason & remark", "relative L2 on the test split"), lines)


def finding(name, status, summary=None, problem=""):
    return Finding(
        name,
        "Table 'made up'",
        f"Is {name} < anything & everything?",
        "It is.",
        f"halfwave reproduce {name} --scale small",
        status,
        summary,
        problem,
        ("2 measured points: seed=0|1",) if summary else (),
        ("A processor, 2 cores; no GPU",) if summary else (),
        ("2026-01-02 03:04 UTC", "2026-01-03 03:04 UTC") if summary else (),
        12.0,
    )


def evidence():
    held, failed = Outcome.of(True, "memory fell by 40%"), Outcome.of(False, "the error rose by 9%")
    untestable = Outcome("not testable here", "it is fast (no such hardware)")
    whole = Exhibit(comparison(), panels(), ("A note with <b> and | in it.",))
    return Evidence(
        "small",
        (
            finding("overview", "confirmed", Summary(whole, verdict(held))),
            finding("memory", "in part", Summary(Exhibit(comparison()), verdict(held, failed))),
            finding("tf32", "not testable here", Summary(Exhibit(comparison()), verdict(untestable))),
            finding("unet", "changed by hand", problem="results/small/unet.csv was changed by hand at 'seed=1'."),
            finding("peer", "missing", problem="There is no result at this scale."),
        ),
    )


def verdict(*outcomes):
    return Verdict(tuple(JudgedPart(f"part <{i}>", "50%", 145, outcome) for i, outcome in enumerate(outcomes)))
