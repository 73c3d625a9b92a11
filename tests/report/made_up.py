"""Evidence that nobody measured: every status, every style of picture, names and numbers that are hard to show."""

import math

from halfwave.report.evidence import Evidence, Finding
from halfwave.report.summary import Check, Comparison, Line, Panel, Series, Summary, Verdict

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
    held, failed = Check(True, "memory fell by 40%"), Check(False, "the error rose by 9%")
    whole = Summary(comparison(), panels(), Verdict((held,)), ("A note with <b> and | in it.",))
    return Evidence(
        "small",
        (
            finding("overview", "confirmed", whole),
            finding("memory", "not confirmed", Summary(comparison(), (), Verdict((held, failed)))),
            finding("tf32", "not measured", Summary(comparison(), (), Verdict((), "no such hardware"))),
            finding("unet", "changed by hand", problem="results/small/unet.csv was changed by hand at 'seed=1'."),
            finding("peer", "missing", problem="There is no result at this scale."),
        ),
    )
