"""half-weights: only the weights of the contraction in half precision, against weights and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.plan import count_step
from halfwave.precision import Policy
from halfwave.recipes import HALF, TITLES, WEIGHTS_MB, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

# What the contraction reads: everything else of the FNO block and of the model is in half in both.
POLICIES = {
    "weights and inputs": Policy.named("mixed", HALF),
    "weights only": Policy.named("mixed", HALF).with_(contraction="fp32"),
}
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
        for half in POLICIES
    ]


def measure(step: PlannedStep, lab: Lab) -> list[dict[str, Any]]:
    _, planned = count_step(step.training, POLICIES[step.half], "cuda")
    return [
        {"peak_memory_bytes": planned.peak_bytes, "activation_bytes": planned.activations},
    ]


def summarise(rows: list[Row]) -> Summary:
    found = {(row["problem"], row["weights"], row["half"]): row for row in rows}
    pairs = list(dict.fromkeys((row["problem"], row["weights"]) for row in rows))
    names = tuple(f"{TITLES[name]}, {weights}" for name, weights in pairs)
    bars = tuple(
        Series(half, names, tuple(found[(*pair, half)]["activation_bytes"] / 1e6 for pair in pairs), "bars")
        for half in POLICIES
    )
    return Summary(
        Comparison(
            ("dataset", "weights"),
            ("both half, MB", "weights only, MB", "reduction, %", "reduction of activations, %"),
            tuple(_line(found, *pair) for pair in pairs),
        ),
        (Panel("activations of a training step at the paper's size", "", "MB", bars),),
        Verdict(tuple(_check(found, *pair) for pair in pairs)),
        (
            "The paper's model and batch, counted from shapes: the largest sum of live tensors of a training step. The "
            "paper's is that of a GPU, whose kernel for full inputs takes far more on Navier-Stokes.",
            "Both problems have the same model and grid, so ours are the same for both.",
        ),
    )


def _line(found: Mapping[tuple[str, str, str], Row], problem: str, weights: str) -> Line:
    both, only = (found[problem, weights, half] for half in POLICIES)
    paper: tuple[float | None, ...] = (None,) * 4
    if weights == "cp":
        low, high = WEIGHTS_MB[problem]
        paper = (low, high, 100 * (1 - low / high), None)
    memory = (both["peak_memory_bytes"] / 1e6, only["peak_memory_bytes"] / 1e6)
    reductions = (_reduction(both, only, "peak_memory_bytes"), _reduction(both, only, "activation_bytes"))
    return Line((TITLES[problem], weights), paper, (*memory, *reductions))


def _reduction(both: Row, only: Row, column: str) -> float:
    return 100 * (1 - both[column] / only[column])


def _check(found: Mapping[tuple[str, str, str], Row], problem: str, weights: str) -> Check:
    both, only = (found[problem, weights, half] for half in POLICIES)
    reduction = _reduction(both, only, "peak_memory_bytes")
    change = f"{abs(reduction):.1f}% {'less' if reduction > 0 else 'more'}"
    return Check(reduction > 0, f"{TITLES[problem]} ({weights}): inputs in half too take {change} memory")


EXPERIMENT = Experiment(
    name="half-weights",
    source="Table 'Approximate precision in weights vs. inputs and weights'",
    question="How much of the memory saving is lost when only the weights are in half precision?",
    claim="Inputs in half as well as weights save 7.5% (Darcy) and 48.5% (Navier-Stokes) of the memory.",
    measures=(
        Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
        Measure("activation_bytes", "without parameters, gradients, optimizer state and batch"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
)
