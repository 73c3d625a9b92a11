"""preactivation-scaling: dividing or normalising the field before a half-precision FFT, against tanh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from halfwave.data import Dataset
from halfwave.experiments.claims import Part, all_of
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import mean, select, with_deviation
from halfwave.experiments.overflow import half_training, raw_darcy
from halfwave.experiments.pairing import pair
from halfwave.experiments.preactivation import MEASURES, SEEDS, measure_training, trained_problem
from halfwave.recipes import Recipe
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import RangeMonitor, build_engine

# In words only: accuracy deteriorates with the divisor, at 10^4 nothing is learnt, normalisation diverges in the end.
DIVISORS = (10, 100, 1000, 10_000)
STABILIZERS = ("none", "tanh", *(f"divide-{divisor}" for divisor in DIVISORS), "normalise")
# Grids for a single forward pass of the untrained model, on which the first overflow is looked for.
GRIDS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (96, 160),
    "small": (64, 128, 256, 512),
    "paper": (64, 128, 256, 512, 1024),
}


@dataclass(frozen=True)
class Scaled:
    """Half-precision training with one stabilizer."""

    stabilizer: str
    seed: int
    training: Training
    probes: tuple[Training, ...]


def configurations(scale: Scale) -> list[Scaled]:
    recipe = trained_problem(scale)
    probes = [_probed(scale, n) for n in GRIDS[scale]]
    return [
        Scaled(
            name, seed, half_training(recipe, name, seed), tuple(half_training(p, name) for p in probes if seed == 0)
        )
        for name in STABILIZERS
        for seed in SEEDS[scale]
    ]


def _probed(scale: Scale, resolution: int) -> Recipe:
    """Two samples are enough for one forward pass."""
    return raw_darcy("small" if scale == "paper" else scale, resolution, (1, 1))


def measure(scaled: Scaled, lab: Lab) -> list[dict[str, Any]]:
    overflowing = [probe for probe in scaled.probes if _overflows(probe, lab)]
    first = overflowing[0].recipe.parameters["resolution"] if overflowing else None
    return [{**measure_training(scaled.training, lab), "overflows_from": first}]


@torch.no_grad()
def _overflows(training: Training, lab: Lab) -> bool:
    """Is anything inf or NaN when the untrained model sees a sample?"""
    dataset = lab.dataset(training.recipe)
    assert isinstance(dataset, Dataset)
    model = build_engine(training.config(lab.data(training.recipe)), dataset).operator.model
    with RangeMonitor(model) as monitor:
        model(dataset.train[:1][0])
    return monitor.first_nonfinite is not None


def exhibit(rows: list[Row]) -> Exhibit:
    found = {name: select(rows, stabilizer=name) for name in STABILIZERS}
    lines = tuple(
        Line(
            (name,),
            (None,) * 5,
            (with_deviation(own, "train_loss"), mean(own, "test_l2"), _outcome(own), _first(own), _memory(own)),
        )
        for name, own in found.items()
    )
    errors = [loss for divisor in DIVISORS if (loss := mean(found[f"divide-{divisor}"], "train_loss")) is not None]
    series = [Series("v / S", DIVISORS, errors)] if len(errors) == len(DIVISORS) else []
    for name in ("tanh", "normalise"):
        if (loss := mean(found[name], "train_loss")) is not None:
            series.append(Series(name, (DIVISORS[0], DIVISORS[-1]), (loss, loss), "dashed"))
    return Exhibit(
        Comparison(
            ("stabilizer",),
            ("train loss", "test error, L2", "training", "overflows from, points a side", "memory, MB"),
            lines,
        ),
        (Panel("division before the transform", "S", "train loss, relative L2", tuple(series), xlog=True),),
        (
            "The paper gives no numbers. 'Overflows from': the coarsest grid of those tried on which one forward pass "
            "of the untrained model has inf or NaN.",
            "A normalised channel has rms 1, so its coefficients reach N at most: it cannot overflow below 256 x 256, "
            "and does beyond where one coefficient holds much of the field.",
        ),
    )


def _outcome(found: list[Row]) -> str:
    return "diverges" if any(row["stopped"] for row in found) else "finite"


def _first(found: list[Row]) -> Any:
    return found[0]["overflows_from"] or "none of them"


def _memory(found: list[Row]) -> float | None:
    return None if found[0]["peak_memory_bytes"] is None else found[0]["peak_memory_bytes"] / 1e6


def _check_order(rows: list[Row]) -> Outcome | None:
    """Each divisor is worse than the one before, over seeds."""
    outcomes = []
    for low, high in pairwise(DIVISORS[:3]):
        worse, better = (select(rows, stabilizer=f"divide-{divisor}") for divisor in (high, low))
        paired = pair(worse, better, "train_loss")
        if paired is None:
            return None
        outcomes.append(paired.above(f"train loss with a division by {high} against {low}"))
    return all_of(outcomes)


def _check_nothing_learnt(rows: list[Row]) -> Outcome | None:
    """Not better than predicting the mean."""
    found = select(rows, stabilizer="divide-10000")
    loss, mean_l2 = mean(found, "train_loss"), mean(found, "mean_l2")
    if loss is None or mean_l2 is None:
        return None
    clause = f"with a division by 10^4 the train loss ends at {loss:.3g}, predicting the mean has {mean_l2:.3g}"
    return Outcome.of(loss >= mean_l2, clause)


def _check_worse(rows: list[Row]) -> Outcome | None:
    """A division by 10 against tanh."""
    divided, tanh = (select(rows, stabilizer=name) for name in ("divide-10", "tanh"))
    paired = pair(divided, tanh, "train_loss")
    return None if paired is None else paired.above("train loss with a division by 10 against tanh")


def _check_normalise(rows: list[Row]) -> Outcome:
    """Unstable in training, or on a grid on which tanh is not."""
    own, tanh = (select(rows, stabilizer=name) for name in ("normalise", "tanh"))
    first, others = own[0]["overflows_from"], tanh[0]["overflows_from"]
    diverges = any(row["stopped"] for row in own)
    earlier = first is not None and (others is None or first < others)
    how = f"{'diverges' if diverges else 'stays finite'} in training and overflows from {first or 'no grid tried'} on"
    return Outcome.of(diverges or earlier, f"normalisation {how}, tanh from {others or 'no grid tried'} on")


def _check_memory(rows: list[Row]) -> Outcome | None:
    own, tanh = (_memory(select(rows, stabilizer=name)) for name in ("normalise", "tanh"))
    if own is None or tanh is None:
        return None
    return Outcome.of(own > tanh, f"a step takes {own:.2f} MB with normalisation and {tanh:.2f} MB with tanh")


PARTS = (
    Part("accuracy deteriorates as the divisor grows: 10, 100, 1000", "deteriorates", 1254, _check_order),
    Part("at 10^4 the network completely fails to learn", "fails to learn", 1254, _check_nothing_learnt),
    Part("a division is a worse choice than tanh", "sub-optimal", 1253, _check_worse),
    Part("normalisation does not fix the instability", "in the long term", 1255, _check_normalise),
    Part("normalisation takes more memory", "extra GPU memory", 1255, _check_memory),
)
EXPERIMENT = Experiment(
    name="preactivation-scaling",
    source="Text of appendix 'Numerical Stability: Pre-FFT Methods'",
    question="Is a division or a normalisation before the transform as good as tanh?",
    claim="Accuracy falls as the divisor grows, nothing is learnt at 10^4; normalisation does not cure the overflow.",
    parts=PARTS,
    measures=(*MEASURES, Measure("overflows_from", "points a side of the coarsest grid whose forward pass overflows")),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda scaled: (scaled.training,),
)
