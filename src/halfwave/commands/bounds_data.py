"""`halfwave bounds --data FILE`: both errors measured on the fields of a dataset, beside their bounds."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfwave.commands.bounds_theory import Question, discretization, fft_scale, precision
from halfwave.data import Dataset
from halfwave.errors import InputError
from halfwave.tables import build_table, table_text
from halfwave.theory import Algorithm, Estimate, discretization_error, estimate_variation, precision_error

_SMALLEST = 8
_WIDTH = 80

Field = NDArray[np.float64]


def measure_data(question: Question, dataset: Dataset, samples: int) -> tuple[dict[str, Any], str]:
    """The inputs of the test split: largest errors and bounds over samples and channels, for each resolution."""
    path = dataset.path
    x = dataset.test[:samples][0].double().numpy()
    fields = [_even(field) for field in x.reshape(-1, *x.shape[2:])]
    rows = [_row(question, fields, step) for step in _steps(fields[0].shape)]
    if not rows:
        raise InputError(f"{path}: a grid of {x.shape[2:]} is too small to be halved; {_SMALLEST} a side are needed")
    result = {
        "kind": "data",
        "data": str(path),
        "fields": len(fields),
        "frequency": list(question.frequency),
        "format": question.format,
        "algorithm": question.algorithm,
        "estimated": question.lipschitz is None and question.variation is None,
        "rows": rows,
        "verdict": _verdict(question, rows),
    }
    return result, _text(result, fields[0].shape, x.shape[2:])


def _even(field: Field) -> Field:
    """Without the last point of a side with an odd number of them: the others can then be halved."""
    return field[tuple(slice(0, n - n % 2) for n in field.shape)]


def _steps(shape: tuple[int, ...]) -> list[int]:
    """1, 2, 4, ... as long as every side is divided and keeps 8 points; finest first."""
    steps, step = [], 1
    while all(n % step == 0 and n // step >= _SMALLEST for n in shape):
        steps.append(step)
        step *= 2
    return steps


def _row(question: Question, fields: list[Field], step: int) -> dict[str, Any]:
    sides = tuple(n // step for n in fields[0].shape)
    measured = [_measure(question, field, sides, step) for field in fields]
    return {"side": sides[0], **{key: _largest([m[key] for m in measured]) for key in measured[0]}}


def _measure(question: Question, field: Field, sides: tuple[int, ...], step: int) -> dict[str, float | None]:
    """The four figures of one field. The finest grid stands for the integral, so it has no error of its own."""
    coarse = field[tuple([slice(None, None, step)] * field.ndim)]
    sup = float(np.abs(coarse).max())
    powers = all(n & (n - 1) == 0 for n in sides)
    rounded = question.algorithm != "fft" or powers
    found: dict[str, float | None] = {
        "discretization_bound": _grid_bound(question, field, sides),
        "discretization_measured": None,
        "precision_bound": None,
        "precision_measured": None,
    }
    if step > 1:
        found["discretization_measured"] = float(discretization_error(field, question.frequency, sides))
    if rounded:
        # The values on the grid are all that is rounded, so their largest and mean are known, not estimated.
        found["precision_bound"] = precision(question, sides, sup=sup, mean=float(np.abs(coarse).mean()))[0].value
        algorithm = Algorithm(question.algorithm, scale=_scale(question, sides, sup))  # type: ignore[arg-type]
        error = precision_error(coarse, question.frequency, sides, question.format, algorithm)
        found["precision_measured"] = float(error)
    return found


def _scale(question: Question, sides: tuple[int, ...], sup: float) -> float:
    return fft_scale(question, sides, sup) if question.algorithm == "fft" else 1.0


def _grid_bound(question: Question, field: Field, sides: tuple[int, ...]) -> float:
    """By the constants given, or by T2 with the variation of the samples: an estimate."""
    if question.lipschitz is not None or question.variation is not None:
        return discretization(question, sides).value
    sup = Estimate(float(np.abs(field).max()), "largest sample")
    known = {"sup": sup, "variation": estimate_variation(field, periodic=question.periodic)}
    return discretization(question, sides, **known).value


def _largest(values: list[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return max(present, default=None)


def _verdict(question: Question, rows: list[dict[str, Any]]) -> str:
    compared = [r for r in rows if r["discretization_measured"] is not None and r["precision_measured"] is not None]
    if not compared:
        return "The grid cannot be halved: there is no measured discretization error to compare with."
    below = [r["side"] for r in compared if r["precision_measured"] < r["discretization_measured"]]
    sides = ", ".join(str(r["side"]) for r in compared)
    if len(below) == len(compared):
        return f"Measured: {question.format} costs less than the grid at every resolution compared ({sides} a side)."
    if below:
        where = ", ".join(map(str, below))
        return f"Measured: {question.format} costs less than the grid at {where} points a side, of {sides} compared."
    return f"Measured: {question.format} costs more than the grid at every resolution compared ({sides} a side)."


def _table(result: dict[str, Any]) -> str:
    keys = ("discretization_measured", "discretization_bound", "precision_measured", "precision_bound")
    rows = [
        (str(row["side"]), *("-" if row[key] is None else f"{row[key]:.3e}" for key in keys)) for row in result["rows"]
    ]
    bound = "B est." if result["estimated"] else "B"
    figures = ["discretization M", f"discretization {bound}", "precision M", "precision B"]
    return table_text(build_table("errors", ["points"], figures, rows))


def _text(result: dict[str, Any], used: tuple[int, ...], shape: tuple[int, ...]) -> str:
    standing = "B est.: T2 with estimates" if result["estimated"] else "B: bound from the constants given"
    lines = [
        f"{result['data']}: {result['fields']} fields on {' x '.join(map(str, shape))}",
        f"frequency {tuple(result['frequency'])}, {result['format']}, {result['algorithm']}; largest over the fields",
        _table(result),
    ]
    notes = [
        f"M: measured, discretization against the finest grid; {standing} (the variation of samples, which may miss "
        "what lies between them); B of the precision error: guaranteed for these grid values."
        if result["estimated"]
        else f"M: measured, discretization against the finest grid; {standing}; B of the precision error: guaranteed "
        "for these grid values."
    ]
    if used != shape:
        notes.append("The last point of sides with an odd number of points is left out.")
    notes.append(result["verdict"])
    return "\n".join([*lines, "", *(line for note in notes for line in textwrap.wrap(note, _WIDTH))])
