"""tanh-ablation: what tanh before the transform does to full precision, which does not need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import NEEDS_GPU, Part
from halfwave.experiments.experiment import SCALES, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import (
    ASSESSED,
    SEEDS,
    deviation,
    further_seeds,
    mean,
    seconds_per_epoch,
    select,
    training_facts,
    with_deviation,
)
from halfwave.experiments.pairing import pair
from halfwave.recipes import problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

# H1, L2, seconds per epoch on Navier-Stokes; lines 1343 and 1344.
PAPER = {"full": (0.0121, 0.00470, 51.72), "tanh": (0.0122, 0.00465, 52.56)}
TITLES = {"full": "full precision", "tanh": "full precision + tanh"}
# Without tanh it is the plain training of other experiments, which auto leaves alone in full precision.
CHANGES: Mapping[str, dict[str, str]] = {"full": {}, "tanh": {"stabilizer": "tanh"}}


@dataclass(frozen=True)
class Ablation:
    """Full precision on Navier-Stokes, with or without tanh."""

    method: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[Ablation]:
    return [_ablation(name, seed, scale) for name in PAPER for seed in SEEDS[scale]]


def further(scale: Scale, rows: list[Row]) -> list[Ablation]:
    return [_ablation(name, seed, scale) for _, seed in further_seeds(rows, scale, [{}], ["tanh"]) for name in PAPER]


def _ablation(name: str, seed: int, scale: Scale) -> Ablation:
    return Ablation(name, seed, Training(problem("navier-stokes", scale), "full", seed, CHANGES[name]))


def measure(ablation: Ablation, lab: Lab) -> list[dict[str, Any]]:
    seconds = seconds_per_epoch(lab.train(ablation.training))
    return [{**lab.assess(ablation.training), "seconds_per_epoch": seconds}]


def exhibit(rows: list[Row]) -> Exhibit:
    found = {name: select(rows, method=name) for name in PAPER}
    bars = tuple(
        Series(
            error.upper(),
            tuple(TITLES[name] for name in found),
            tuple(mean(seeds, error) or 0.0 for seeds in found.values()),
            "bars",
            tuple(deviation(seeds, error) for seeds in found.values()),
        )
        for error in ("h1", "l2")
    )
    return Exhibit(
        Comparison(
            ("model",),
            ("H1", "L2", "seconds per epoch", "H1 against full [90%]", "L2 against full [90%]"),
            tuple(_line(rows, name) for name in found),
        ),
        (Panel("test error", "", "relative error", bars),),
        ("Mean and deviation over seeds; differences are of pairs with the same seed.",),
    )


def _line(rows: list[Row], name: str) -> Line:
    own, full = select(rows, method=name), select(rows, method="full")
    pairs = [None if name == "full" else pair(own, full, error) for error in ("h1", "l2")]
    ours = (
        with_deviation(own, "h1"),
        with_deviation(own, "l2"),
        mean(own, "seconds_per_epoch"),
        *(None if paired is None else str(paired) for paired in pairs),
    )
    return Line((TITLES[name],), (*PAPER[name], None, None), ours)


def _check(error: str, rows: list[Row]) -> Outcome | None:
    """Nothing is rounded, so that the gate is that the model has learnt something."""
    paired = pair(select(rows, method="tanh"), select(rows, method="full"), error)
    if paired is None:
        return None
    outcome = paired.within(f"{error.upper()} with tanh against without")
    return behind_gate(outcome, not_learnt(select(rows, method="full")))


PARTS = (
    Part("tanh leaves the H1 error as it is, to 1%", "0.0122 against 0.0121", 1344, partial(_check, "h1")),
    Part("tanh leaves the L2 error as it is, to 1%", "0.00465 against 0.00470", 1344, partial(_check, "l2")),
    Part("an epoch takes 1.6% longer", "1.6%", 1329, reason=NEEDS_GPU),
)
EXPERIMENT = Experiment(
    name="tanh-ablation",
    source="Table 'Ablation study on full-precision FNO with and without tanh'",
    question="Does tanh before the transform harm a model in full precision?",
    claim="There is no noticeable change in accuracy.",
    parts=PARTS,
    measures=(*ASSESSED, Measure("seconds_per_epoch", "median over epochs", timing=True)),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda ablation: (ablation.training,),
    further=further,
    facts=lambda ablation, rows: [fact for row in rows for fact in training_facts(ablation.training, row)],
    scales=SCALES,
)
