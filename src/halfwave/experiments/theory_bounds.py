"""theory-bounds: discretization and precision errors at the first FNO block of a trained model, beside their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from halfwave.certificates import core_of, observe
from halfwave.data import Darcy
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.numerics import get_format
from halfwave.recipes import HALF, Recipe
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.theory import (
    bound_discretization,
    bound_precision,
    discretization_error,
    estimate_lipschitz,
    estimate_variation,
    paper_bound_discretization,
    paper_bound_discretization_general,
    paper_bound_precision,
    paper_bound_precision_general,
    paper_lower_bound_discretization,
    paper_lower_bound_discretization_general,
    paper_lower_bound_precision_general,
    precision_error,
)

Field = NDArray[np.float64]

# The paper draws all curves and gives no numbers.
DIMENSIONS = (1, 3)
KINDS = ("fourier", "general")
SAMPLES: Mapping[Scale, int] = {"smoke": 1, "small": 4, "paper": 16}
# The finest grid stands for the integral.
FINEST: Mapping[Scale, dict[int, int]] = {
    "smoke": {1: 512, 3: 32},
    "small": {1: 4096, 3: 64},
    "paper": {1: 16_384, 3: 128},
}
COARSEST = {1: 16, 3: 8}
# In the paper's model of a format, eps is the distance of neighbours over their size.
EPS = 2 * get_format(HALF).unit_roundoff


@dataclass(frozen=True)
class Resolution:
    """One grid of a field on its way into the first FNO block of a model trained on Darcy flow."""

    dimension: int
    points: int
    finest: int
    samples: int
    training: Training


def configurations(scale: Scale) -> list[Resolution]:
    return [
        Resolution(d, points, FINEST[scale][d], SAMPLES[scale], Training(_recipe(scale, d), "full"))
        for d in DIMENSIONS
        for points in _grids(COARSEST[d], FINEST[scale][d])
    ]


def _grids(coarsest: int, finest: int) -> list[int]:
    """Powers of two from the coarsest to half of the finest."""
    return [2**k for k in range(int(math.log2(coarsest)), int(math.log2(finest)))]


def _recipe(scale: Scale, dimension: int) -> Recipe:
    """10 epochs, as in the paper."""
    resolution = {"smoke": {1: 32, 3: 12}, "small": {1: 128, 3: 16}, "paper": {1: 1024, 3: 64}}[scale][dimension]
    sizes = {"smoke": (8, 2), "small": (64, 8), "paper": (1000, 100)}[scale]
    arguments = {"n_modes": [8] * dimension, "hidden_channels": 32 if scale == "paper" else 8, "n_layers": 2}
    training = {
        "epochs": 2 if scale == "smoke" else 10,
        "batch_size": 4,
        "learning_rate": 5e-3,
        "loss": "l2",
        "checkpoint_every": 1000,
    }
    parameters = {"resolution": resolution, "dim": dimension}
    name = f"darcy-{dimension}d-{scale}"
    return Recipe(
        name, f"Darcy flow in {dimension}-D, {scale}", "FNO", arguments, "darcy", parameters, *sizes, training
    )


def measure(resolution: Resolution, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(resolution.training)
    if trained.result is None:
        raise RuntimeError(f"full precision diverged: {trained.reason}")
    fields = _block_inputs(trained.operator(), resolution)
    rows = []
    for kind in KINDS:
        found = [_errors(field, kind, resolution) for field in fields]
        largest = {name: max(one[name] for one in found) for name in found[0]}
        above = sum(one["discretization"] > one["discretization_bound"] for one in found)
        above += sum(one["precision"] > one["precision_bound"] for one in found)
        below = sum(one["precision"] < one["discretization"] for one in found)
        rows.append({"kind": kind, **largest, "fields": len(found), "above_bound": above, "precision_below": below})
    return rows


@torch.no_grad()
def _block_inputs(operator: nn.Module, resolution: Resolution) -> list[Field]:
    """Channels of the first block's input, on the finest grid x_j = j/m: the medium's last node repeats no other."""
    darcy = Darcy(resolution.finest + 1, resolution.dimension)
    inner = (slice(0, resolution.finest),) * resolution.dimension
    media = [darcy.coefficient(0, "test", index)[inner] for index in range(resolution.samples)]
    x = torch.tensor(np.stack(media)[:, None], dtype=torch.float32)
    seen = observe(*core_of(operator, x)).inputs["blocks.0.conv"]
    return list(seen.double().flatten(0, 1).numpy())


def _errors(field: Field, kind: str, resolution: Resolution) -> dict[str, float]:
    """Both errors of one field at frequency (1, ..., 1), or of its mean (general bounds), with the bounds on them."""
    d, m = resolution.dimension, resolution.points
    frequency = [1 if kind == "fourier" else 0] * d
    coarse = field[(slice(None, None, resolution.finest // m),) * d]
    sup = float(np.abs(field).max())
    slope = max(1.0, math.hypot(*(float(size) for size in estimate_lipschitz(field))))
    guaranteed = bound_discretization(frequency, [m] * d, sup=sup, variation=estimate_variation(field))
    rounded = bound_precision(HALF, [m] * d, sup=float(np.abs(coarse).max()), mean=float(np.abs(coarse).mean()))
    return {
        "discretization": float(discretization_error(field, frequency, [m] * d)),
        "precision": float(precision_error(coarse, frequency, [m] * d, HALF)),
        **_printed(kind, m**d, d, sup, slope),
        "discretization_bound": guaranteed.value,
        "precision_bound": rounded.value,
    }


def _printed(kind: str, n: int, d: int, sup: float, slope: float) -> dict[str, float]:
    """The paper's theorems. For Fourier coefficients it has no lower bound on the precision error: 0."""
    if kind == "fourier":
        frequency = (1.0,) * d
        return {
            "paper_discretization": paper_bound_discretization(frequency, n, d, sup=sup, lipschitz=slope).value,
            "paper_discretization_lower": paper_lower_bound_discretization(n, d, sup=sup).value,
            "paper_precision": paper_bound_precision(EPS, sup=sup).value,
            "paper_precision_lower": 0.0,
        }
    return {
        "paper_discretization": paper_bound_discretization_general(n, d, lipschitz=slope).value,
        "paper_discretization_lower": paper_lower_bound_discretization_general(n, d).value,
        "paper_precision": paper_bound_precision_general(EPS, sup=sup).value,
        "paper_precision_lower": paper_lower_bound_precision_general(EPS, sup=sup).value,
    }


def exhibit(rows: list[Row]) -> Exhibit:
    lines = tuple(
        Line((f"{row['dimension']}-D", row["kind"], row["points"]), (None,) * 6, tuple(row[name] for name in _COLUMNS))
        for row in rows
    )
    panels = tuple(
        _panel([r for r in rows if (r["dimension"], r["kind"]) == (d, k)], d, k) for d in DIMENSIONS for k in KINDS
    )
    return Exhibit(
        Comparison(
            ("Darcy flow", "bounds", "points a side"),
            (
                "discretization error",
                "paper's bound",
                "our bound",
                "precision error",
                "paper's bound on it",
                "our bound on it",
            ),
            lines,
        ),
        panels,
        (
            "Largest over channels and samples of what enters the first FNO block of the trained model; the finest "
            "grid stands for the integral. 'fourier' is the coefficient of frequency (1, ..., 1), 'general' the mean.",
            "Darcy media jump, so the Lipschitz constant is that of neighbouring samples on the finest grid, and "
            "large; our own bound takes the variation, which jumps leave finite (estimated from that grid).",
            "The paper's lower bounds are for the worst function of a class, not for this one.",
        ),
    )


_COLUMNS = (
    "discretization",
    "paper_discretization",
    "discretization_bound",
    "precision",
    "paper_precision",
    "precision_bound",
)


def _panel(rows: list[Row], dimension: int, kind: str) -> Panel:
    points = tuple(row["points"] for row in rows)

    def series(label: str, column: str, style: Any) -> Series:
        return Series(label, points, tuple(row[column] for row in rows), style)

    curves = [
        series("discretization, measured", "discretization", "line"),
        series("precision, measured", "precision", "line"),
        series("discretization, upper bound", "paper_discretization", "dashed"),
        series("precision, upper bound", "paper_precision", "dashed"),
        series("discretization, worst-case lower bound", "paper_discretization_lower", "dashed"),
    ]
    if all(row["paper_precision_lower"] for row in rows):
        curves.append(series("precision, worst-case lower bound", "paper_precision_lower", "dashed"))
    title = f"{dimension}-D, {'Fourier basis' if kind == 'fourier' else 'general functions'}"
    return Panel(title, "points a side", "error", tuple(curves), xlog=True, ylog=True)


def _check_order(rows: list[Row]) -> Outcome:
    below = [row for row in rows if row["precision"] < row["discretization"]]
    ratio = max(row["precision"] / row["discretization"] for row in rows)
    clause = f"the precision error is below the discretization error in {len(below)} of {len(rows)} cases"
    return Outcome.of(len(below) == len(rows), f"{clause} and reaches {ratio:.2g} times it")


def _check_bounds(errors: Mapping[str, str], what: str, rows: list[Row]) -> Outcome:
    """Measured errors {column: column of the bound}; a bound of 0 is none."""
    cases = [(row[error], row[bound]) for row in rows for error, bound in errors.items() if row[bound]]
    below = [case for case in cases if case[0] <= case[1]]
    loosest = max(bound / error for error, bound in cases if error)
    clause = (
        f"{len(below)} of {len(cases)} measured errors are below {what}, which are up to {loosest:.2g} times as large"
    )
    return Outcome.of(len(below) == len(cases), clause)


def _check_own(rows: list[Row]) -> Outcome:
    above = sum(row["above_bound"] for row in rows)
    fields = sum(2 * row["fields"] for row in rows)
    return Outcome.of(not above, f"{above} of {fields} measured errors exceed our own bounds")


PARTS = (
    Part("the discretization error is higher than the precision error", "higher", 1126, _check_order),
    Part(
        "both errors are always lower than their upper bounds",
        "always lower",
        1127,
        partial(
            _check_bounds,
            {"discretization": "paper_discretization", "precision": "paper_precision"},
            "the paper's upper bounds",
        ),
    ),
    Part(
        "both errors are always lower than their worst-case lower bounds",
        "always lower",
        1127,
        partial(
            _check_bounds,
            {"discretization": "paper_discretization_lower", "precision": "paper_precision_lower"},
            "the paper's worst-case lower bounds",
        ),
    ),
    Part("no measured error exceeds the bound that this library gives for its own field", check=_check_own),
)
EXPERIMENT = Experiment(
    name="theory-bounds",
    source="Figure 'Discretization and precision errors of Darcy flow', appendix 'Plotting Theoretical Bounds'",
    question="Is the error of half precision below that of the grid, and are both below their bounds?",
    claim="The discretization error is higher than the precision error, and both are lower than their upper bounds.",
    parts=PARTS,
    measures=(
        Measure("kind", "fourier: the coefficient of frequency (1, ..., 1); general: the mean"),
        Measure("discretization", "measured, largest over fields"),
        Measure("precision", f"measured in {HALF}, inputs rounded, largest over fields"),
        Measure("paper_discretization", "theorem 3.1 or A.1, upper bound"),
        Measure("paper_discretization_lower", "theorem 3.1 or A.1, worst-case lower bound"),
        Measure("paper_precision", "theorem 3.2 or A.2, upper bound"),
        Measure("paper_precision_lower", "theorem A.2, worst-case lower bound; 0 where there is none"),
        Measure("discretization_bound", "ours, by the variation of the samples"),
        Measure("precision_bound", "ours, guaranteed for the values on the grid"),
        Measure("fields", "channels times samples"),
        Measure("above_bound", "measured errors that exceed our bound of their own field"),
        Measure("precision_below", "fields whose precision error is below their discretization error"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda resolution: (resolution.training,),
)
