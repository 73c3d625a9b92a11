"""preactivation-scaling: dividing or normalising the field before a half-precision FFT, against tanh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from halfwave.data import Dataset
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.overflow import half_training, raw_darcy
from halfwave.experiments.preactivation import MEASURES, measure_training, trained_darcy
from halfwave.recipes import Recipe
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict
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
    training: Training
    probes: tuple[Training, ...]


def configurations(scale: Scale) -> list[Scaled]:
    recipe = trained_darcy(scale)
    probes = [_probed(scale, n) for n in GRIDS[scale]]
    return [
        Scaled(name, half_training(recipe, name), tuple(half_training(probe, name) for probe in probes))
        for name in STABILIZERS
    ]


def _probed(scale: Scale, resolution: int) -> Recipe:
    """Two samples are enough for one forward pass."""
    return raw_darcy("small" if scale == "paper" else scale, resolution, (1, 1))


def measure(scaled: Scaled, lab: Lab) -> list[dict[str, Any]]:
    overflowing = [probe for probe in scaled.probes if _overflows(probe, lab)]
    first = overflowing[0].recipe.parameters["resolution"] if overflowing else None
    return [{**measure_training(lab.train(scaled.training)), "overflows_from": first}]


@torch.no_grad()
def _overflows(training: Training, lab: Lab) -> bool:
    """Is anything inf or NaN when the untrained model sees a sample?"""
    dataset = lab.dataset(training.recipe)
    assert isinstance(dataset, Dataset)
    model = build_engine(training.config(lab.data(training.recipe)), dataset).operator.model
    with RangeMonitor(model) as monitor:
        model(dataset.train[:1][0])
    return monitor.first_nonfinite is not None


def summarise(rows: list[Row]) -> Summary:
    found = {row["stabilizer"]: row for row in rows}
    lines = tuple(
        Line((name,), (None,) * 4, (row["train_loss"], row["test_l2"], _outcome(row), _first(row)))
        for name, row in found.items()
    )
    errors = [found[f"divide-{divisor}"]["train_loss"] for divisor in DIVISORS]
    series = [Series("v / S", DIVISORS, errors)] if None not in errors else []
    for name in ("tanh", "normalise"):
        if (loss := found[name]["train_loss"]) is not None:
            series.append(Series(name, (DIVISORS[0], DIVISORS[-1]), (loss, loss), "dashed"))
    return Summary(
        Comparison(
            ("stabilizer",), ("train loss", "test error, L2", "training", "overflows from, points a side"), lines
        ),
        (Panel("division before the transform", "S", "train loss, relative L2", tuple(series), xlog=True),),
        Verdict(_checks(found)),
        (
            "The paper gives no numbers. 'Overflows from': the coarsest grid of those tried on which one forward pass "
            "of the untrained model has inf or NaN.",
            "A normalised channel has rms 1, so its coefficients reach N at most: it cannot overflow below 256 x 256, "
            "and does beyond where one coefficient holds much of the field.",
        ),
    )


def _outcome(row: Row) -> str:
    return "diverges" if row["stopped"] else "finite"


def _first(row: Row) -> Any:
    return row["overflows_from"] or "none of them"


def _checks(found: Mapping[str, Row]) -> tuple[Check, ...]:
    naive = bool(found["none"]["stopped"])
    checks = [Check(naive, f"without stabilizer training {'diverges' if naive else 'does not diverge'}")]
    losses = [found[f"divide-{divisor}"]["train_loss"] for divisor in DIVISORS]
    if None in losses:
        checks.append(Check(False, "a division diverges"))
    else:
        text = ", ".join(f"{loss:.3g}" for loss in losses)
        worse = losses[-1] > losses[0]
        trend = "rises" if worse else "does not rise"
        checks.append(Check(worse, f"the train loss {trend} with the divisor from 10 to 10^4 ({text})"))
    checks.append(_against_tanh(found, losses))
    first = found["normalise"]["overflows_from"]
    unstable = bool(found["normalise"]["stopped"]) or first is not None
    how = "in training" if found["normalise"]["stopped"] else f"from {first} points a side on"
    checks.append(Check(unstable, f"normalisation {f'overflows {how}' if unstable else 'never overflows'}"))
    return tuple(checks)


def _against_tanh(found: Mapping[str, Row], losses: list[float | None]) -> Check:
    tanh, last = found["tanh"]["train_loss"], losses[-1]
    if tanh is None or last is None:
        return Check(False, "tanh and division by 10^4 cannot be compared, as one diverged")
    change = 100 * (last / tanh - 1)
    return Check(change > 0, f"division by 10^4 ends {abs(change):.1f}% {'above' if change > 0 else 'below'} tanh")


EXPERIMENT = Experiment(
    name="preactivation-scaling",
    source="Text of appendix 'Numerical Stability: Pre-FFT Methods'",
    question="Is a division or a normalisation before the transform as good as tanh?",
    claim="Accuracy falls as the divisor grows, nothing is learnt at 10^4; normalisation does not cure the overflow.",
    measures=(*MEASURES, Measure("overflows_from", "points a side of the coarsest grid whose forward pass overflows")),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda scaled: (scaled.training,),
)
