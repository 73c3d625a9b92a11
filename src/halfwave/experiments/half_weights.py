"""half-weights: only the weights of the contraction in half precision, against weights and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import STEP_MEMORY, Experiment, Fact, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.plan import count_step
from halfwave.precision import Policy
from halfwave.recipes import HALF, TITLES, WEIGHTS_MB, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

# Darcy's 7550 MB are those of half precision in all three operations without AMP (line 1319), Navier-Stokes' 4832 MB
# those of the whole method (line 1507).
POLICY = {"darcy": "half", "navier-stokes": "mixed"}
# What the contraction reads: everything else is in half in both.
HALVES = ("weights and inputs", "weights only")
POINTS = 5.0  # percentage points to which a printed percentage must be met
# The paper's model has CP weights; dense ones beside it show what the factors hide.
WEIGHTS: Mapping[str, dict[str, Any]] = {"cp": {}, "dense": {"factorization": None}}


@dataclass(frozen=True)
class PlannedStep:
    """A training step of the paper's model, of which shapes suffice: nothing is computed, at any scale."""

    problem: str
    weights: str
    half: str
    training: Training


def configurations(scale: Scale) -> list[PlannedStep]:
    """The paper's sizes at every scale, as no values are needed."""
    return [
        PlannedStep(
            name, weights, half, Training(problem(name, "paper"), "mixed", changes={"arguments": dict(arguments)})
        )
        for name in WEIGHTS_MB
        for weights, arguments in WEIGHTS.items()
        for half in HALVES
    ]


def measure(step: PlannedStep, lab: Lab) -> list[dict[str, Any]]:
    policy = Policy.named(POLICY[step.problem], HALF)
    chosen = policy if step.half == "weights and inputs" else policy.with_(contraction="fp32")
    _, planned = count_step(step.training, chosen, "cuda")
    return [
        {"peak_memory_bytes": planned.peak_bytes, "activation_bytes": planned.activations},
    ]


def exhibit(rows: list[Row]) -> Exhibit:
    found = {(row["problem"], row["weights"], row["half"]): row for row in rows}
    pairs = list(dict.fromkeys((row["problem"], row["weights"]) for row in rows))
    names = tuple(f"{TITLES[name]}, {weights}" for name, weights in pairs)
    bars = tuple(
        Series(half, names, tuple(found[(*pair, half)]["activation_bytes"] / 1e6 for pair in pairs), "bars")
        for half in HALVES
    )
    return Exhibit(
        Comparison(
            ("dataset", "weights"),
            ("both half, MB", "weights only, MB", "reduction, %", "reduction of activations, %"),
            tuple(_line(found, *pair) for pair in pairs),
        ),
        (Panel("activations of a training step at the paper's size", "", "MB", bars),),
        (
            "The paper's model and batch, counted from shapes: the largest sum of live tensors of a training step. The "
            "paper's is that of a GPU, whose kernel for full inputs takes far more on Navier-Stokes.",
            "Darcy flow without AMP, as in the table of the block's precisions, which has the same 7550 MB. The same "
            "planner as `halfwave plan --paper`.",
        ),
    )


def _line(found: Mapping[tuple[str, str, str], Row], problem: str, weights: str) -> Line:
    both, only = (found[problem, weights, half] for half in HALVES)
    paper: tuple[float | None, ...] = (None,) * 4
    if weights == "cp":
        low, high = WEIGHTS_MB[problem]
        paper = (low, high, 100 * (1 - low / high), None)
    memory = (both["peak_memory_bytes"] / 1e6, only["peak_memory_bytes"] / 1e6)
    reductions = (_reduction(both, only, "peak_memory_bytes"), _reduction(both, only, "activation_bytes"))
    return Line((TITLES[problem], weights), paper, (*memory, *reductions))


def _reduction(both: Row, only: Row, column: str) -> float:
    return 100 * (1 - both[column] / only[column])


def _check(problem: str, rows: list[Row]) -> Outcome:
    """The percentage that the paper prints, met to `POINTS` percentage points."""
    found = {(row["problem"], row["weights"], row["half"]): row for row in rows}
    both, only = (found[problem, "cp", half] for half in HALVES)
    reduction = _reduction(both, only, "peak_memory_bytes")
    low, high = WEIGHTS_MB[problem]
    paper = 100 * (1 - low / high)
    clause = f"{TITLES[problem]}: inputs in half too save {reduction:.1f}% of the memory, against {paper:.1f}%"
    return Outcome.of(abs(reduction - paper) <= POINTS, clause)


def _facts(step: PlannedStep, rows: list[Row]) -> list[Fact]:
    """The planner has the paper's model with inputs in half, by the name of the policy."""
    if step.weights != "cp" or step.half != "weights and inputs":
        return []
    name = f"planned bytes at the paper's size: {step.problem}, {POLICY[step.problem]}"
    return [(name, row["peak_memory_bytes"]) for row in rows]


PARTS = (
    Part("inputs in half as well as weights save 7.5% on Darcy flow", "7.54%", 1540, partial(_check, "darcy")),
    Part(
        "inputs in half as well as weights save 48.5% on Navier-Stokes",
        "48.46%",
        1541,
        partial(_check, "navier-stokes"),
    ),
)
EXPERIMENT = Experiment(
    name="half-weights",
    source="Table 'Approximate precision in weights vs. inputs and weights'",
    question="How much of the memory saving is lost when only the weights are in half precision?",
    claim="Inputs in half as well as weights save 7.5% (Darcy) and 48.5% (Navier-Stokes) of the memory.",
    parts=PARTS,
    measures=(*STEP_MEMORY,),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    facts=_facts,
)
