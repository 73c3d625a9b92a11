"""number-systems: bf16 and simulated fp8 in place of fp16, against full precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import SCALES, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed, not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, SEEDS, mean, select, train_as, training_facts, with_deviation
from halfwave.experiments.methods import METHODS as NAMED
from halfwave.experiments.pairing import Paired, pair
from halfwave.numerics import Format, get_format, register_format
from halfwave.recipes import TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

E5M2 = register_format(Format("fp8_e5m2_clipped", 3, -14, 57344.0, "clip", None))
"""fp8 as the paper simulates it: out-of-range values are clipped to the largest number (line 1454)."""
# Curves only: bf16 has a significantly higher error than full and fp16, fp8 diverges.
FP8 = {"fp8-e4m3": "fp8_e4m3", "fp8-e5m2": E5M2.name}
METHODS = ("full", "paper", "ours", "amp-bf16", "ours-bf16", *FP8)
TITLED = {**LABELS, "fp8-e4m3": "ours, fp8 e4m3", "fp8-e5m2": "ours, fp8 e5m2, clipped"}
PROBLEMS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("darcy",),
    "small": ("navier-stokes", "darcy"),
    "medium": ("navier-stokes", "darcy"),
    "paper": ("navier-stokes", "darcy", "car"),
}
# Of fp8 only whether it diverges is asked.
FP8_SEEDS: Mapping[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0,), "medium": (0,), "paper": (0, 1, 2)}


@dataclass(frozen=True)
class System:
    """A training in one number system."""

    problem: str
    method: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[System]:
    return [
        System(name, method, seed, _training(name, method, seed, scale))
        for name in PROBLEMS[scale]
        for method in METHODS
        for seed in (FP8_SEEDS if method in FP8 else SEEDS)[scale]
    ]


def _training(name: str, method: str, seed: int, scale: Scale) -> Training:
    if method in FP8:
        return Training(problem(name, scale), "mixed", seed, {"dtype": FP8[method]})
    return train_as(method, problem(name, scale), seed)


def measure(system: System, lab: Lab) -> list[dict[str, Any]]:
    """One row for each epoch with an evaluation, the last one with all errors, also where nothing was finite."""
    trained, assessed = lab.train(system.training), lab.assess(system.training)
    known = {"unit_roundoff": _format(system.method).unit_roundoff, "stopped": trained.reason or ""}
    last = system.training.config("").epochs
    rows = [
        {**assessed, "l2": row["test_l2"], "h1": row["test_h1"], "epoch": row["epoch"], "last": False, **known}
        for row in trained.epochs
        if row["test_l2"] is not None and row["epoch"] < last
    ]
    return [*rows, {**assessed, "epoch": last, "last": True, **known}]


def _format(method: str) -> Format:
    if method in FP8:
        return get_format(FP8[method])
    return get_format("fp32" if method == "full" else NAMED[method].changes["dtype"])


def exhibit(rows: list[Row]) -> Exhibit:
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "method"),
            ("unit roundoff", "test error, L2", "L2 in full", "L2 against full [90%]", "rounding of the answer",
             "diverges"),
            tuple(_line(rows, name, method) for name in problems for method in METHODS),
        ),
        tuple(_panel(rows, name) for name in problems),
        (
            "fp8 is simulated: operands and results of every product are rounded to it. e5m2 is clipped to its largest "
            "number, as the paper does it; the overflow of e4m3 becomes NaN.",
            "'L2 in full' is the error of the same weights evaluated in full precision: what training itself lost. The "
            "paper shows curves without numbers, fp8 with GINO.",
        ),
    )  # fmt: skip


def _final(rows: list[Row], name: str, method: str) -> list[Row]:
    return select(rows, problem=name, method=method, last=True)


def _line(rows: list[Row], name: str, method: str) -> Line:
    found = _final(rows, name, method)
    paired = None if method == "full" else pair(found, _final(rows, name, "full"), "l2")
    diverges = "yes" if any(row["stopped"] for row in found) else "no"
    # What the paper's figure shows of fp8.
    paper = (None, None, None, None, None, "yes" if method == "fp8-e5m2" else None)
    ours = (
        found[0]["unit_roundoff"],
        with_deviation(found, "l2"),
        None if method == "full" else mean(found, "l2_full"),
        None if paired is None else str(paired),
        None if method == "full" else mean(found, "rounding"),
        diverges,
    )
    return Line((TITLES[name], TITLED[method]), paper, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    series = []
    for method in METHODS:
        found = select(rows, problem=name, method=method)
        points = {epoch: mean(select(found, epoch=epoch), "l2") for epoch in sorted({r["epoch"] for r in found})}
        known = {epoch: value for epoch, value in points.items() if value is not None}
        if known:
            series.append(Series(TITLED[method].split(" (")[0], tuple(known), tuple(known.values())))
    return Panel(TITLES[name], "epoch", "test error, relative L2", tuple(series), ylog=True)


def _check(
    name: str, method: str, other: str, judge: Callable[[Paired, str], Outcome], rows: list[Row]
) -> Outcome | None:
    """One system against another, behind the gate of the coarser one."""
    own, theirs = _final(rows, name, method), _final(rows, name, other)
    paired = pair(own, theirs, "l2")
    if paired is None:
        return None
    outcome = judge(paired, f"{TITLED[method]} against {TITLED[other]} on {TITLES[name]}, L2")
    return behind_gate(outcome, closed(_final(rows, name, "full"), own))


def _check_fp8(name: str, rows: list[Row]) -> Outcome | None:
    found = _final(rows, name, "fp8-e5m2")
    if not found:
        return None
    diverged = all(row["stopped"] for row in found)
    error, mean_l2 = mean(found, "l2"), mean(found, "mean_l2")
    text = "diverges" if diverged else f"ends at {error:.3g}, the mean predictor at {mean_l2 or float('nan'):.3g}"
    outcome = Outcome.of(diverged, f"{TITLED['fp8-e5m2']} on {TITLES[name]} {text}")
    return behind_gate(outcome, not_learnt(_final(rows, name, "full")))


def _check_epsilon(rows: list[Row]) -> Outcome | None:
    """Of the formats themselves."""
    fp8, fp16 = ([r["unit_roundoff"] for r in rows if r["method"] == m] for m in ("fp8-e4m3", "ours"))
    if not fp8 or not fp16:
        return None
    clause = f"unit roundoff {fp16[0]:.1e} of fp16 and {fp8[0]:.1e} of fp8 e4m3"
    return Outcome.of(fp8[0] > 1e-2 and 5e-5 < fp16[0] < 5e-4, clause)


def _above(paired: Paired, what: str) -> Outcome:
    return paired.above(what, 1.0)


def _within(paired: Paired, what: str) -> Outcome:
    return paired.within(what)


def _parts(name: str, line: int | None) -> tuple[Part, ...]:
    """The paper has Navier-Stokes, in AMP; Darcy flow and our method in bf16 stand beside it."""
    words = "significantly higher" if line else ""
    where = f"on {TITLES[name]}"
    return (
        Part(f"AMP in bf16 has a significantly higher error than full {where}", words, line,
             partial(_check, name, "amp-bf16", "full", _above)),
        Part(f"AMP in bf16 has a significantly higher error than the paper's method in fp16 {where}", words, line,
             partial(_check, name, "amp-bf16", "paper", _above)),
        Part(f"our method in bf16 has a significantly higher error than full {where}",
             check=partial(_check, name, "ours-bf16", "full", _above)),
        Part(f"our method in fp16 has full's error to 1% {where}",
             check=partial(_check, name, "ours", "full", _within)),
    )  # fmt: skip


PARTS = (
    *_parts("navier-stokes", 1464),
    *_parts("darcy", None),
    *(
        Part(
            f"fp8 in e5m2, clipped, diverges on {TITLES[name]}",
            said,
            line,
            partial(_check_fp8, name),
        )
        for name, said, line in (("navier-stokes", "", None), ("darcy", "", None), ("car", "diverges", 1464))
    ),
    Part("the precision constant is 1e-4 of fp16 and above 1e-2 of fp8", "1e-4, 1e-2", 1456, _check_epsilon),
)  # fmt: skip
EXPERIMENT = Experiment(
    name="number-systems",
    source="Figure 'BF16 and FP8', appendix 'Other Numeric Systems'",
    question="Can bf16 or fp8 take the place of fp16?",
    claim="bf16 has a significantly higher error than full precision and fp16; fp8 diverges for want of digits.",
    parts=PARTS,
    measures=(
        Measure("epoch", "number of the epoch"),
        Measure("last", "whether it is the last one"),
        Measure("l2", "relative L2 error on the test split, as trained"),
        Measure("h1", "relative H1 error, as trained"),
        Measure("l2_full", "relative L2 error of the final weights in full precision"),
        Measure("h1_full", "relative H1 error of the final weights in full precision"),
        Measure("rounding", "relative distance of the final answers from those in full precision"),
        Measure("mean_l2", "relative L2 error of the mean of the train targets"),
        Measure("linear_l2", "relative L2 error of a linear map"),
        Measure("unit_roundoff", "largest relative error of rounding to the format"),
        Measure("stopped", "why the trainer stopped; empty where it did not"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda system: (system.training,),
    facts=lambda system, rows: [f for row in select(rows, last=True) for f in training_facts(system.training, row)],
    scales=SCALES,
)
