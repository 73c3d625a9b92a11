"""precision-swap: rounding alone, on frozen weights: those of each training evaluated in every format.

A training in half precision differs from one in full by what rounding did to its updates and by what it does to its
answers. Evaluated in another format the weights stay, and only the second differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import SCALES, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, not_learnt
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import LABELS, mean, methods_on, seeds_on, select, train_as, with_deviation
from halfwave.experiments.pairing import Paired, pair
from halfwave.models import computing_in
from halfwave.numerics import cpu_multiplies
from halfwave.precision import Policy
from halfwave.recipes import LINE, PROBLEMS, TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import evaluate, rounding_of

WIDE, NATIVE = "mixed bf16, wide", "mixed bf16, native"
"""As on a CPU that does not multiply bf16 (stored in it, multiplied in fp32), and as on one that does, on either."""
MULTIPLIES: Mapping[str, tuple[str, ...]] = {WIDE: (), NATIVE: ("bf16",)}
TRAINED_IN = ("full", "paper", "ours", "ours-bf16")
EVALUATED_IN: Mapping[str, Policy] = {
    "full": Policy.named("full"),
    **{f"{name} {dtype}": Policy.named(name, dtype) for dtype in ("fp16", "bf16") for name in ("amp", "half", "mixed")},
    "stream bf16": Policy.named("stream", "bf16"),
    **{name: Policy.named("mixed", "bf16") for name in MULTIPLIES},
}


@dataclass(frozen=True)
class Swap:
    """The weights of one training."""

    problem: str
    trained_in: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[Swap]:
    """At scale smoke two problems; bodies' graphs take most of it."""
    problems = {"smoke": ("darcy", "car"), "medium": (*PROBLEMS, LINE)}.get(scale, PROBLEMS)
    return [
        Swap(name, method, seed, train_as(method, problem(name, scale), seed))
        for name in problems
        for method in methods_on(name, scale, TRAINED_IN)
        for seed in seeds_on(name, scale)
    ]


def measure(swap: Swap, lab: Lab) -> list[dict[str, Any]]:
    """The stabilizer that the weights were trained with acts in every format: it is part of the function."""
    trained, baselines = lab.train(swap.training), lab.baselines(swap.training.recipe, swap.training.data_seed)
    if trained.diverged:
        lost = {"l2": None, "h1": None, "rounding": None}
        return [{"evaluated_in": name, **lost, **baselines} for name in EVALUATED_IN]
    operator = trained.operator()
    samples = lab.test_samples(swap.training, operator)
    rows = []
    for name, policy in EVALUATED_IN.items():
        with cpu_multiplies(*MULTIPLIES[name]) if name in MULTIPLIES else nullcontext():
            with computing_in(operator, policy):
                errors = evaluate(operator, samples)
            moved = rounding_of(operator, samples, policy)
        rows.append({"evaluated_in": name, "l2": errors["l2"], "h1": errors.get("h1"), "rounding": moved, **baselines})
    return rows


def exhibit(rows: list[Row]) -> Exhibit:
    problems = tuple(dict.fromkeys(row["problem"] for row in rows))
    return Exhibit(
        Comparison(
            ("dataset", "trained in", "evaluated in"),
            (
                "error, L2",
                "L2 against the same weights in full [90%]",
                "rounding of the answer",
                "linear predictor, L2",
            ),
            tuple(
                _line(rows, name, trained, evaluated)
                for name in problems
                for trained in TRAINED_IN
                for evaluated in EVALUATED_IN
                if _found(rows, name, trained, evaluated)
            ),
        ),
        tuple(_panel(rows, name) for name in problems),
        (
            "Not in the paper. Rounding of the answer: the mean over test samples of the distance between the answers "
            "of the same weights in a format and in full precision, relative to the latter.",
            "stream bf16: spectral layers in bf16, pointwise ones in fp16 (the policy 'stream').",
        ),
    )


def _found(rows: list[Row], name: str, trained_in: str, evaluated_in: str) -> list[Row]:
    return select(rows, problem=name, trained_in=trained_in, evaluated_in=evaluated_in)


def _swapped(rows: list[Row], name: str, trained_in: str, evaluated_in: str) -> Paired | None:
    """The same weights in a format against in full."""
    return pair(_found(rows, name, trained_in, evaluated_in), _found(rows, name, trained_in, "full"), "l2")


def _line(rows: list[Row], name: str, trained_in: str, evaluated_in: str) -> Line:
    found = _found(rows, name, trained_in, evaluated_in)
    paired = None if evaluated_in == "full" else _swapped(rows, name, trained_in, evaluated_in)
    ours = (
        with_deviation(found, "l2"),
        None if paired is None else str(paired),
        mean(found, "rounding"),
        mean(found, "linear_l2") if evaluated_in == "full" else None,
    )
    return Line((TITLES[name], LABELS[trained_in], evaluated_in), (None,) * 4, ours)


def _panel(rows: list[Row], name: str) -> Panel:
    """By how much rounding moves the answers of full's weights and of those trained in half."""
    formats = tuple(format for format in EVALUATED_IN if format != "full")
    series = []
    for method in TRAINED_IN:
        if not _found(rows, name, method, "full"):
            continue
        values = {format: mean(_found(rows, name, method, format), "rounding") for format in formats}
        known = {format: value for format, value in values.items() if value}
        series.append(Series(f"trained in {method}", tuple(known), tuple(known.values()), "bars"))
    return Panel(TITLES[name], "evaluated in", "rounding of the answer", tuple(series), ylog=True)


def _check(name: str, evaluated_in: str, percent: float, rows: list[Row]) -> Outcome | None:
    """Of full's weights: at most so many percent are lost."""
    paired = _swapped(rows, name, "full", evaluated_in)
    if paired is None:
        return None
    outcome = paired.at_most(f"full's weights on {TITLES[name]} in {evaluated_in}, L2 against in full", percent)
    return behind_gate(outcome, not_learnt(_found(rows, name, "full", "full")))


def _check_where(name: str, rows: list[Row]) -> Outcome | None:
    """The pointwise layers in bf16 move the answer more than the spectral ones do, seed by seed."""
    amp, half = (_found(rows, name, "full", f"{policy} bf16") for policy in ("amp", "half"))
    paired = pair(amp, half, "rounding")
    if paired is None:
        return None
    return paired.above(f"rounding by pointwise layers in bf16 against spectral ones on {TITLES[name]}")


def _check_stream(name: str, rows: list[Row]) -> Outcome | None:
    """The policy 'stream' moves the answer less than half as far as mixed bf16."""
    stream, mixed = (_found(rows, name, "full", f"{policy} bf16") for policy in ("stream", "mixed"))
    paired = pair(stream, mixed, "rounding")
    return None if paired is None else paired.below(f"rounding by stream against mixed, bf16, on {TITLES[name]}", 50.0)


def _check_wide(name: str, rows: list[Row]) -> Outcome | None:
    """Native and wide products round at the same places: the answers move as far, to 10%."""
    wide, native = (_found(rows, name, "full", format) for format in (WIDE, NATIVE))
    paired = pair(wide, native, "rounding")
    return (
        None if paired is None else paired.within(f"rounding by wide products against native on {TITLES[name]}", 10.0)
    )


PARTS = tuple(
    part
    for name in (*PROBLEMS, LINE)
    for part in (
        Part(f"native and wide products of bf16 round alike on {TITLES[name]}", check=partial(_check_wide, name)),
        Part(f"fp16 costs full's weights at most 1% on {TITLES[name]}", check=partial(_check, name, "mixed fp16", 1.0)),
        Part(f"bf16 costs full's weights at most 1% on {TITLES[name]}", check=partial(_check, name, "mixed bf16", 1.0)),
        Part(
            f"bf16 in the spectral layers alone costs full's weights at most 1% on {TITLES[name]}",
            check=partial(_check, name, "half bf16", 1.0),
        ),
        Part(f"what bf16 rounds is mostly the pointwise half on {TITLES[name]}", check=partial(_check_where, name)),
        Part(f"the policy stream halves the rounding of bf16 on {TITLES[name]}", check=partial(_check_stream, name)),
    )
)
EXPERIMENT = Experiment(
    name="precision-swap",
    source="Our own; the paper compares trainings, in which both effects are mixed",
    question="What does rounding do to the answers of weights that are already trained?",
    claim="fp16 costs a trained model nothing, bf16 does, and it does so in the pointwise layers.",
    parts=PARTS,
    measures=(
        Measure("evaluated_in", "policy and half format of the evaluation"),
        Measure("l2", "relative L2 error on the test split"),
        Measure("h1", "relative H1 error; none on point clouds"),
        Measure("rounding", "relative distance of the answers from those of the same weights in full precision"),
        Measure("mean_l2", "relative L2 error of the mean of the train targets"),
        Measure("linear_l2", "relative L2 error of a linear map"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda swap: (swap.training,),
    scales=SCALES,
)
