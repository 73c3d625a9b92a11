"""path-caching: what planning a contraction costs, beside the contraction itself, without and with a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.cp_contraction import Block, CPContraction, block_of
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.measure import median_seconds
from halfwave.recipes import TITLES
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.spectral import execute, forget_plans

# Seconds to calculate paths and to compute einsums; the third figure is their ratio in percent.
PAPER = {"navier-stokes": (0.000573, 0.000751, 76.3), "darcy": (0.000441, 0.000716, 61.6)}
CALLS: Mapping[Scale, int] = {"smoke": 5, "small": 25, "paper": 100}


@dataclass(frozen=True)
class Planned:
    """The contraction of one problem's FNO block."""

    problem: str
    modes: int
    channels: int
    batch: int
    rank: float
    calls: int


def configurations(scale: Scale) -> list[Planned]:
    """Both problems have one model in the paper, but other batches."""
    blocks = {name: block_of(name, scale) for name in PAPER}
    return [Planned(name, b.modes, b.channels, b.batch, b.rank, CALLS[scale]) for name, b in blocks.items()]


def measure(planned: Planned, lab: Lab) -> list[dict[str, Any]]:
    contraction = CPContraction(Block(planned.modes, planned.channels, planned.batch, planned.rank))
    operands = [operand.detach() for operand in contraction.operands]

    def plan_anew() -> None:
        forget_plans()
        contraction.plan()

    plan = contraction.plan()
    return [
        {
            "planning_seconds": median_seconds(plan_anew, planned.calls),
            "cached_seconds": median_seconds(contraction.plan, planned.calls),
            "contraction_seconds": median_seconds(lambda: execute(plan, operands, contraction.arith), planned.calls),
        }
    ]


def exhibit(rows: list[Row]) -> Exhibit:
    lines = tuple(_line(row) for row in rows)
    names = tuple(TITLES[row["problem"]] for row in rows)
    bars = tuple(
        Series(label, names, tuple(1e3 * row[column] for row in rows), "bars")
        for label, column in (
            ("planning", "planning_seconds"),
            ("planning, from the cache", "cached_seconds"),
            ("contraction", "contraction_seconds"),
        )
    )
    return Exhibit(
        Comparison(
            ("dataset",),
            ("planning, s", "contraction, s", "planning / contraction, %", "with cache, s", "with cache, %"),
            lines,
        ),
        (Panel("one contraction", "", "ms", bars, ylog=True),),
        (
            "The contraction is one forward pass in half precision, which a GPU does in less time than this machine: "
            "the share of planning is larger there.",
            "Our plans weigh more orders than the paper's greedy search (an exhaustive one for up to 8 tensors), and "
            "are made once for each shape and format.",
        ),
    )


def _line(row: Row) -> Line:
    planning, cached, contraction = (row[f"{what}_seconds"] for what in ("planning", "cached", "contraction"))
    ours = (planning, contraction, 100 * planning / contraction, cached, 100 * cached / contraction)
    return Line((TITLES[row["problem"]],), (*PAPER[row["problem"]], None, None), ours)


def _shares(rows: list[Row], what: str) -> dict[str, float]:
    """Percent of the contraction's time."""
    return {row["problem"]: 100 * row[f"{what}_seconds"] / row["contraction_seconds"] for row in rows}


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.2g}% on {TITLES[name]}" for name, share in shares.items())


def _check_planning(rows: list[Row]) -> Outcome:
    shares = _shares(rows, "planning")
    return Outcome.of(max(shares.values()) >= 75, f"planning anew takes {_listed(shares)} of the contraction's time")


def _check_order(rows: list[Row]) -> Outcome:
    shares = _shares(rows, "planning")
    flow, darcy = shares["navier-stokes"], shares["darcy"]
    return Outcome.of(flow > darcy, _listed(shares))


def _check_cached(rows: list[Row]) -> Outcome:
    shares = _shares(rows, "cached")
    return Outcome.of(max(shares.values()) < 5, f"from the cache it takes {_listed(shares)}")


PARTS = (
    Part("planning takes up to 75% of the cost of the contraction", "75%", 1485, _check_planning),
    Part("a larger part of it on Navier-Stokes than on Darcy flow", "76.3% against 61.6%", 1518, _check_order),
    Part("a cache makes it almost zero", "almost zero", 1487, _check_cached),
)
EXPERIMENT = Experiment(
    name="path-caching",
    source="Table 'Re-computing contract paths vs. Caching contract paths'",
    question="What does it save to keep the plan of a contraction?",
    claim="Planning takes up to 76% of the time of the contraction itself; a cache makes that almost zero.",
    parts=PARTS,
    measures=(
        Measure("planning_seconds", "a plan made anew, median", timing=True),
        Measure("cached_seconds", "the same plan from the cache, median", timing=True),
        Measure("contraction_seconds", "forward pass of the contraction, median", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
)
