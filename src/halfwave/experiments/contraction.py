"""contraction: how a contraction of several complex tensors is made of real ones: options A, B and C of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import torch

from halfwave.experiments.cp_contraction import Block, CPContraction, block_of
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.measure import LiveBytes, take_turns
from halfwave.recipes import OPTION_MB
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict
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
    return [
        {
            "option": option,
            "forward_seconds": seconds[option],
            "counted_peak_bytes": peaks[option],
            "flops": plans[option].flops,
            "paper_size_peak_bytes": paper.plan(option).peak_bytes,
            "paper_size_flops": paper.plan(option).flops,
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


def summarise(rows: list[Row]) -> Summary:
    found = {row["option"]: row for row in rows}
    lines = tuple(_line(option, row) for option, row in found.items())
    names = tuple(found)
    return Summary(
        Comparison(
            ("option",),
            (
                "forward pass, s",
                "memory, MB",
                "operations, GFLOP",
                "planned peak at the paper's size, MB",
                "operations at the paper's size, GFLOP",
            ),
            lines,
        ),
        (
            _bars("forward pass of one contraction", "s", names, [row["forward_seconds"] for row in rows]),
            _bars("forward and backward pass", "MB", names, [row["counted_peak_bytes"] / 1e6 for row in rows]),
        ),
        Verdict(
            (_least(found, "forward_seconds", "time"), _least(found, "counted_peak_bytes", "memory"), _planned(found))
        ),
        (
            "The paper's memory is that of the whole training on Navier-Stokes, ours of one contraction with CP "
            "weights, forward and backward, counted.",
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
    )
    return Line((option,), (PAPER_SECONDS[option], OPTION_MB[option], None, None, None), ours)


def _bars(title: str, unit: str, names: tuple[str, ...], values: list[float]) -> Panel:
    return Panel(title, "option", unit, (Series("ours", names, tuple(values), "bars"),), ylog=True)


def _least(found: Mapping[str, Row], column: str, what: str) -> Check:
    """C against A; against B the paper gains a tenth, which is within what single contractions differ by."""
    a, b, c = (found[option][column] for option in OPTIONS)
    reduction, against_b = 100 * (1 - c / a), 100 * (c / b - 1)
    side = "above" if against_b > 0 else "below"
    clause = f"option C takes {reduction:.1f}% less {what} than A, {abs(against_b):.1f}% {side} B"
    return Check(c < a and c <= 1.1 * b, clause)


def _planned(found: Mapping[str, Row]) -> Check:
    a, b, c = (found[option]["paper_size_peak_bytes"] / 1e6 for option in OPTIONS)
    return Check(c <= b <= a, f"planned at the paper's size: {a:.0f}, {b:.0f} and {c:.0f} MB for A, B and C")


EXPERIMENT = Experiment(
    name="contraction",
    source="Table 'Comparison of tensor contraction implementations', appendix 'Contract and View-as-real Usage'",
    question="How should a contraction of complex tensors be made of real ones?",
    claim="Two tensors at a time with small factors in complex format (C) saves 95% of the time and 53% of the memory.",
    measures=(
        Measure("option", "A, B or C"),
        Measure("forward_seconds", "median of the forward passes, taking turns", timing=True),
        Measure("counted_peak_bytes", "live storages during forward and backward pass, each once"),
        Measure("flops", "of the plan"),
        Measure("paper_size_peak_bytes", "planned for the paper's model: operands, result, intermediates"),
        Measure("paper_size_flops", "of that plan"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
)
