"""contraction: how a contraction of several complex tensors is made of real ones: options A, B and C of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import torch

from halfwave.experiments.claims import NEEDS_GPU, Part
from halfwave.experiments.cp_contraction import Block, CPContraction, block_of
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.measure import LiveBytes, take_turns
from halfwave.planner import paper_tables
from halfwave.recipes import OPTION_MB
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.spectral import ComplexMode, ContractionPlan, execute

# Seconds of one contraction's forward pass (seconds per epoch: 1730, 101.7, 92.59).
PAPER_SECONDS = {"A": 0.178, "B": 0.0084, "C": 0.0076}
PROBLEM = "navier-stokes"
OPTIONS: tuple[ComplexMode, ...] = get_args(ComplexMode)
TURNS: Mapping[Scale, int] = {"smoke": 3, "small": 9, "paper": 25}


@dataclass(frozen=True)
class Options:
    """The three options on one contraction, which take turns."""

    modes: int
    channels: int
    batch: int
    rank: float
    turns: int


def configurations(scale: Scale) -> list[Options]:
    block = block_of(PROBLEM, scale)
    return [Options(block.modes, block.channels, block.batch, block.rank, TURNS[scale])]


def measure(options: Options, lab: Lab) -> list[dict[str, Any]]:
    contraction = CPContraction(Block(options.modes, options.channels, options.batch, options.rank))
    plans = {option: contraction.plan(option) for option in OPTIONS}
    forward: dict[str, Callable[[], object]] = {option: _forward(contraction, plan) for option, plan in plans.items()}
    peaks = {option: _peak_bytes(contraction, plan) for option, plan in plans.items()}
    seconds = take_turns(forward, options.turns)
    paper = CPContraction(block_of(PROBLEM, "paper"), "meta")
    steps = {row.setting.removeprefix("option "): row.planned_mb for row in paper_tables(("contraction",))}
    return [
        {
            "option": option,
            "forward_seconds": seconds[option],
            "counted_peak_bytes": peaks[option],
            "flops": plans[option].flops,
            "paper_size_peak_bytes": paper.plan(option).peak_bytes,
            "paper_size_flops": paper.plan(option).flops,
            "step_bytes": round(steps[option] * 1e6),
        }
        for option in OPTIONS
    ]


def _forward(contraction: CPContraction, plan: ContractionPlan) -> Callable[[], object]:
    operands = [operand.detach() for operand in contraction.operands]
    return lambda: execute(plan, operands, contraction.arith)


def _peak_bytes(contraction: CPContraction, plan: ContractionPlan) -> int:
    """Of forward and backward pass, operands and their gradients included."""
    with LiveBytes() as live:
        live.hold(contraction.operands)
        y = execute(plan, contraction.operands, contraction.arith)
        torch.autograd.grad(y, contraction.operands, torch.ones_like(y))
    return live.peak()


def exhibit(rows: list[Row]) -> Exhibit:
    found = {row["option"]: row for row in rows}
    lines = tuple(_line(option, row) for option, row in found.items())
    names = tuple(found)
    return Exhibit(
        Comparison(
            ("option",),
            (
                "forward pass, s",
                "memory, MB",
                "operations, GFLOP",
                "planned peak at the paper's size, MB",
                "operations at the paper's size, GFLOP",
                "whole step at the paper's size, MB",
            ),
            lines,
        ),
        (
            _bars("forward pass of one contraction", "s", names, [row["forward_seconds"] for row in rows]),
            _bars("forward and backward pass", "MB", names, [row["counted_peak_bytes"] / 1e6 for row in rows]),
        ),
        (
            "The paper's memory is that of the whole training on Navier-Stokes, beside which stands a step as planned "
            "by `halfwave plan --paper`; the others are of one contraction with CP weights.",
            "A: one real equation for all tensors. B: two tensors at a time, as pairs. C: as B, but products of small "
            "factors in complex format.",
        ),
    )


def _line(option: str, row: Row) -> Line:
    ours = (
        row["forward_seconds"],
        row["counted_peak_bytes"] / 1e6,
        row["flops"] / 1e9,
        row["paper_size_peak_bytes"] / 1e6,
        row["paper_size_flops"] / 1e9,
        row["step_bytes"] / 1e6,
    )
    return Line((option,), (PAPER_SECONDS[option], None, None, None, None, OPTION_MB[option]), ours)


def _bars(title: str, unit: str, names: tuple[str, ...], values: list[float]) -> Panel:
    return Panel(title, "option", unit, (Series("ours", names, tuple(values), "bars"),), ylog=True)


def _check(column: str, what: str, other: str, least: float, rows: list[Row]) -> Outcome:
    """C takes less than another option, by at least so many percent."""
    found = {row["option"]: row for row in rows}
    own, theirs = found["C"][column], found[other][column]
    reduction = 100 * (1 - own / theirs)
    side = "less" if reduction >= 0 else "more"
    clause = f"option C takes {abs(reduction):.1f}% {side} {what} than {other}"
    return Outcome.of(reduction > 0 and reduction >= least, clause)


_FORWARD = ("forward_seconds", "time in one contraction")
_STEP = ("step_bytes", "memory in a whole step at the paper's size, as planned,")
_ONE = ("counted_peak_bytes", "memory in one contraction and its backward pass, as counted,")
PARTS = (
    Part("C takes 95.7% less time for a contraction than A", "95.73%", 1508, partial(_check, *_FORWARD, "A", 90.0)),
    Part(
        "C takes less time for a contraction than B",
        "0.0076 against 0.0084 s",
        1508,
        partial(_check, *_FORWARD, "B", 0.0),
    ),
    Part("C takes 53% less memory in training than A", "53.12%", 1507, partial(_check, *_STEP, "A", 48.0)),
    Part("C takes less memory in training than B", "4832 against 5048 MB", 1507, partial(_check, *_STEP, "B", 0.0)),
    Part("an epoch takes 94.7% less with C than with A", "94.65%", 1506, reason=NEEDS_GPU),
    Part("in one contraction C takes less memory than A", check=partial(_check, *_ONE, "A", 0.0)),
    Part("in one contraction C takes less memory than B", check=partial(_check, *_ONE, "B", 0.0)),
)
EXPERIMENT = Experiment(
    name="contraction",
    source="Table 'Comparison of tensor contraction implementations', appendix 'Contract and View-as-real Usage'",
    question="How should a contraction of complex tensors be made of real ones?",
    claim="Two tensors at a time with small factors in complex format (C) saves 95% of the time and 53% of the memory.",
    parts=PARTS,
    measures=(
        Measure("option", "A, B or C"),
        Measure("forward_seconds", "median of the forward passes, taking turns", timing=True),
        Measure("counted_peak_bytes", "live storages during forward and backward pass, each once"),
        Measure("flops", "of the plan"),
        Measure("paper_size_peak_bytes", "planned for the paper's model: operands, result, intermediates"),
        Measure("paper_size_flops", "of that plan"),
        Measure("step_bytes", "a whole training step of the paper's model, planned"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
)
