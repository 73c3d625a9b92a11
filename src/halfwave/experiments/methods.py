"""The methods that are compared, by name, and what experiments that compare them over problems and seeds share.

Two methods of mixed precision are told apart everywhere: the paper's (FFTs in half precision behind tanh) and ours
(matrix products, no stabilizer). fp16 trains with loss scaling, bf16 needs none. Rows are those of result files; a
value is None where a training diverged.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from halfwave.experiments.experiment import Fact, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed
from halfwave.experiments.lab import Lab, Trained, Training
from halfwave.experiments.pairing import Paired, pair
from halfwave.recipes import TITLES, Recipe
from halfwave.report import Outcome, plus_minus


@dataclass(frozen=True)
class Method:
    """A way to train: its name in tables, the precision, and what else of the trainer's settings belongs to it."""

    label: str
    precision: str
    changes: Mapping[str, Any] = field(default_factory=dict)


_FP16 = {"dtype": "fp16", "loss_scaling": True}
_BF16 = {"dtype": "bf16"}
_FFT = {"backend": "fft", "stabilizer": "tanh"}
METHODS: Mapping[str, Method] = {
    "full": Method("full", "full"),
    "amp": Method("AMP fp16", "amp", _FP16),
    "amp-bf16": Method("AMP bf16", "amp", _BF16),
    "half": Method("half-precision FNO fp16", "half", _FP16),
    "half-bf16": Method("half-precision FNO bf16", "half", _BF16),
    "paper": Method("paper's method (half FFT, tanh, fp16)", "mixed", {**_FP16, **_FFT}),
    "ours": Method("ours (matrix products, fp16)", "mixed", _FP16),
    "ours-bf16": Method("ours (matrix products, bf16)", "mixed", _BF16),
    "ours-unscaled": Method("ours, fp16 without loss scaling", "mixed", {"dtype": "fp16"}),
    "schedule": Method("schedule, paper's method, tanh kept", "schedule", {**_FP16, **_FFT}),
    "schedule-ours": Method("schedule, ours", "schedule", _FP16),
}
LABELS = {name: method.label for name, method in METHODS.items()}
MIXED = ("paper", "ours", "ours-bf16")
"""The methods whose error is compared with full precision's."""
TRAINED = ("full", "amp", *MIXED)
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1, 2), "medium": (0, 1, 2, 3), "paper": (0, 1, 2)}
MOST_SEEDS: dict[Scale, int] = {"smoke": 1, "small": 3, "medium": 12, "paper": 3}
"""The stopping rule, fixed beforehand: seeds are added one by one until each interval is narrow, up to so many.

ln(mixed/full) of a pair deviates by some 1.8% at medium, whatever the format: an interval of 2% takes eleven or twelve.
"""
FP16_MIXED = ("paper", "ours")
COMPARED = ("full", *FP16_MIXED)
"""What further seeds are trained by: what bf16 changes a few seeds show, what fp16 does is as small as their noise."""
ASSESSED = (
    Measure("l2", "relative L2 error on the test split, as trained"),
    Measure("h1", "relative H1 error, as trained; none on point clouds"),
    Measure("l2_full", "relative L2 error of the same weights in full precision"),
    Measure("h1_full", "relative H1 error of the same weights in full precision"),
    Measure("rounding", "relative distance of the answers as trained from those of the same weights in full"),
    Measure("mean_l2", "relative L2 error of the mean of the train targets"),
    Measure("linear_l2", "relative L2 error of a linear map"),
)
"""Of `Lab.assess`."""


BODIES = ("car", "ahmed")
"""Their trainings are long and differ by percents from seed to seed: more seeds than an evening has would be needed."""

SQUARES = ("navier-stokes", "darcy")
"""The problems on a square."""


def seeds_on(name: str, scale: Scale) -> tuple[int, ...]:
    """The first seeds of a problem."""
    return SEEDS[scale][:2] if scale == "medium" and name in BODIES else SEEDS[scale]


def methods_on(name: str, scale: Scale, methods: Sequence[str] = TRAINED) -> tuple[str, ...]:
    """Of some methods those that are trained on a problem; at medium the squares alone have all of them."""
    if scale in ("small", "paper") or (scale == "medium" and name in SQUARES):
        return tuple(methods)
    left_out = ("amp", "ours-bf16") if name in BODIES or scale == "smoke" else ("amp",)
    return tuple(method for method in methods if method not in left_out)


def train_as(method: str, recipe: Recipe, seed: int = 0, **changes: Any) -> Training:
    """The training of a recipe by a method. A sphere's transform chooses its backend itself."""
    chosen = METHODS[method]
    settings = {**chosen.changes, **changes}
    if recipe.model in ("SFNO", "UNet"):
        settings.pop("backend", None)
    return Training(recipe, chosen.precision, seed, settings)


def further_seeds(
    rows: Sequence[Row],
    scale: Scale,
    groups: Iterable[Mapping[str, Any]],
    methods: Sequence[str],
    column: str = "l2",
) -> list[tuple[Mapping[str, Any], int]]:
    """The stopping rule: (group, seed) of all seeds that rows ask for beyond the first ones.

    A group (one problem, say) has another seed while the interval of some method against full is wider than `WIDEST`
    percent. Only widths are looked at, never the side on which an interval lies.
    """
    asked = []
    for group in groups:
        first, most = len(SEEDS[scale]), MOST_SEEDS[scale]
        found = select(rows, **group)
        for seed in range(first, most):
            known = [row for row in found if row["seed"] < seed]
            if all(_is_narrow(known, method, column) for method in methods):
                break
            asked.append((group, seed))
            if not any(row["seed"] == seed for row in found):
                break
    return asked


def _is_narrow(rows: Sequence[Row], method: str, column: str) -> bool:
    """A method that was not measured, or that diverged, asks for no more seeds."""
    paired = pair(select(rows, method=method), select(rows, method="full"), column)
    return paired is None or paired.is_narrow


def against_full(rows: Sequence[Row], method: str, column: str, **group: Any) -> Paired | None:
    """A method against full, seed by seed, in one group of the rows."""
    return pair(select(rows, method=method, **group), select(rows, method="full", **group), column)


def judge_against_full(
    rows: Sequence[Row],
    method: str,
    column: str,
    judge: Callable[[Paired, str], Outcome],
    **group: Any,
) -> Outcome | None:
    """What `judge` says of a method's error against full's, behind the gate; None where it was not measured."""
    paired = against_full(rows, method, column, **group)
    if paired is None:
        return None
    what = f"{LABELS[method]}{_where(group)}, {column.upper()} against full"
    why = closed(select(rows, method="full", **group), select(rows, method=method, **group))
    return behind_gate(judge(paired, what), why)


def _where(group: Mapping[str, Any]) -> str:
    return "".join(f" on {TITLES.get(value, value)}" for value in group.values())


def memory_of(trained: Trained) -> dict[str, int | None]:
    """Bytes of a training step, as counted in the training."""
    row = trained.epochs[0] if trained.epochs else {}
    return {name: row.get(name) for name in ("peak_memory_bytes", "activation_bytes")}


def measure_methods(trainings: Mapping[str, Training], lab: Lab) -> list[dict[str, Any]]:
    """A row for each method: what `Lab.assess` says, and the memory of a step."""
    return [
        {"method": method, **lab.assess(training), **memory_of(lab.train(training))}
        for method, training in trainings.items()
    ]


def training_facts(training: Training, row: Row) -> list[Fact]:
    """What a row says of a training that other experiments may have too: its errors and its memory."""
    settings = {**training.recipe.training, **training.changes}
    name = f"{training.recipe.name}, {training.precision}, seed {training.seed}, {sorted(settings.items())}"
    columns = ("l2", "h1", "l2_full", "h1_full", "rounding", "peak_memory_bytes", "activation_bytes")
    return [(f"{column} of {name}", row[column]) for column in columns if column in row]


def method_facts(trainings: Mapping[str, Training], rows: Sequence[Row]) -> list[Fact]:
    """Of a configuration with one training, and one row, for each method."""
    return [fact for row in rows for fact in training_facts(trainings[row["method"]], row)]


def seconds_per_epoch(trained: Trained, policy: str | None = None) -> float | None:
    """Median over epochs, or over those under one policy of a schedule."""
    seconds = [row["seconds"] for row in trained.epochs if policy is None or row["policy"].startswith(policy)]
    return statistics.median(seconds) if seconds else None


def select(rows: Sequence[Row], **fields: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def values_of(rows: Sequence[Row], column: str) -> list[float]:
    """A column over seeds; empty unless every row has it, as a mean over those that survived would flatter."""
    values = [row[column] for row in rows]
    return [] if any(value is None for value in values) else values


def mean(rows: Sequence[Row], column: str) -> float | None:
    values = values_of(rows, column)
    return statistics.fmean(values) if values else None


def deviation(rows: Sequence[Row], column: str) -> float:
    """Sample deviation over seeds; 0 for a single one."""
    values = values_of(rows, column)
    return statistics.stdev(values) if len(values) > 1 else 0.0


def with_deviation(rows: Sequence[Row], column: str) -> str | None:
    """Mean and deviation for a table."""
    values = values_of(rows, column)
    return plus_minus(values) if values else None


def excess(value: float | None, reference: float | None) -> float | None:
    """By how many percent `value` is above `reference`."""
    return None if value is None or reference is None else 100 * (value / reference - 1)


def saved(rows: Sequence[Row], method: str, column: str, **group: Any) -> float | None:
    """Percent of full's bytes that a method saves; the same for all seeds."""
    own, full = (select(rows, method=m, **group) for m in (method, "full"))
    if not own or not full or not own[0][column] or not full[0][column]:
        return None
    return float(100 * (1 - own[0][column] / full[0][column]))
