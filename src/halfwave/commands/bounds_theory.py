"""What `halfwave bounds` is asked, and its answer from theorems alone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from halfwave.errors import InputError
from halfwave.theory import (
    Algorithm,
    Bound,
    Number,
    bound_discretization,
    bound_precision,
    crossover,
    largest_scale,
    lower_bound_discretization,
    read_format,
    read_number,
    read_per_axis,
)

_WIDTH = 80
_SWEEP = tuple(2**k for k in range(3, 13))

PerAxis = Number | Sequence[Number]


@dataclass(frozen=True)
class Question:
    """A coefficient on a grid in a format, and what is known of the function. `sides` is empty for a file."""

    sides: tuple[int, ...]
    frequency: tuple[int, ...]
    format: str
    algorithm: str
    sup: float | None
    lipschitz: PerAxis | None
    variation: PerAxis | None
    periodic: bool

    @classmethod
    def read(
        cls,
        *,
        grid: tuple[int, ...],
        dim: int | None,
        format: str,
        frequency: tuple[int, ...],
        sup: float | None,
        lipschitz: tuple[float, ...],
        variation: tuple[float, ...],
        periodic: bool,
        algorithm: str,
        from_data: bool,
    ) -> Question:
        """Checked; InputError says in one line what is missing or wrong."""
        read_format(format)
        Algorithm(algorithm)  # type: ignore[arg-type]
        axes = _axes(grid, dim, frequency)
        if not from_data:
            _require(grid, sup, lipschitz, variation)
        question = cls(
            sides=() if from_data else (grid * axes if len(grid) == 1 else grid),
            frequency=_frequency(frequency, axes),
            format=format,
            algorithm=algorithm,
            sup=None if sup is None else read_number("sup", sup),
            lipschitz=_constants("lipschitz", lipschitz, axes),
            variation=_constants("variation", variation, axes),
            periodic=periodic,
        )
        if min(question.sides, default=1) < 1:
            raise InputError(f"grid must have at least one point along each axis, got {question.sides}")
        return question


def _axes(grid: tuple[int, ...], dim: int | None, frequency: tuple[int, ...]) -> int:
    if dim is not None and dim < 1:
        raise InputError(f"--dim must be at least 1, got {dim}")
    several = max(len(grid), len(frequency))
    axes = dim if dim is not None else (several if several > 1 else 2)
    if len(grid) not in (0, 1, axes):
        raise InputError(f"--grid has {len(grid)} sides in {axes} dimensions: expected one, or {axes}")
    return axes


def _require(
    grid: tuple[int, ...], sup: float | None, lipschitz: tuple[float, ...], variation: tuple[float, ...]
) -> None:
    if not grid:
        raise InputError("--grid is missing: points a side (or measure with --data FILE, or --run RUN)")
    if sup is None:
        raise InputError("--sup is missing: rounding errors grow with the size of v, |v| <= sup")
    if not lipschitz and not variation:
        raise InputError(
            "--lipschitz is missing: no discretization bound without the Lipschitz constant of v "
            "(or its --variation, where v jumps)"
        )


def _frequency(given: tuple[int, ...], axes: int) -> tuple[int, ...]:
    if len(given) == 1:
        return (*given, *[0] * (axes - 1))
    if len(given) != axes:
        raise InputError(f"--frequency has {len(given)} components in {axes} dimensions: expected one, or {axes}")
    return given


def _constants(name: str, given: tuple[float, ...], axes: int) -> PerAxis | None:
    if not given:
        return None
    read_per_axis(name, given[0] if len(given) == 1 else given, axes)
    return given[0] if len(given) == 1 else given


def discretization(question: Question, sides: tuple[int, ...], **known: Any) -> Bound:
    """The smallest discretization bound for the question on a grid; `known` replaces constants by estimates."""
    constants = {
        "sup": question.sup,
        "lipschitz": question.lipschitz,
        "variation": question.variation,
        "periodic": question.periodic,
    }
    return bound_discretization(question.frequency, sides, **{**constants, **known})


def precision(question: Question, sides: tuple[int, ...], **size: Any) -> tuple[Bound, float]:
    """The precision bound on a grid, and the power of two by which an FFT's input is multiplied against overflow."""
    scale = 1.0
    if question.algorithm == "fft":
        scale = fft_scale(question, sides, float(size["sup"]))
        if scale == 0.0:
            raise InputError(f"an FFT on {_text(sides)} points overflows {question.format} at any scale: use gemm")
    return bound_precision(question.format, sides, algorithm=question.algorithm, scale=scale, **size), scale  # type: ignore[arg-type]


def fft_scale(question: Question, sides: tuple[int, ...], sup: float) -> float:
    return min(1.0, largest_scale(question.format, sides, sup)) if sup > 0 else 1.0


def describe(question: Question) -> tuple[dict[str, Any], str]:
    """Both bounds and which is larger: as numbers, and in words at 80 columns."""
    grid_bound = discretization(question, question.sides)
    rounding, scale = precision(question, question.sides, sup=question.sup)
    worst = _worst_case(question)
    verdict = _verdict(question, grid_bound, rounding, worst)
    result = {
        "kind": "bounds",
        "grid": list(question.sides),
        "frequency": list(question.frequency),
        "format": question.format,
        "algorithm": question.algorithm,
        "scale": scale,
        "discretization": bound_dict(grid_bound),
        "precision": bound_dict(rounding),
        "worst_case": None if worst is None else bound_dict(worst),
        "larger": "discretization" if grid_bound.value > rounding.value else "precision",
        "verdict": verdict,
    }
    lines = [f"grid {_text(question.sides)}, frequency {question.frequency}, {question.format}", ""]
    lines += ["discretization error " + line if not i else line for i, line in enumerate(_lines(grid_bound))]
    lines += ["", *("precision error " + line if not i else line for i, line in enumerate(_lines(rounding)))]
    if scale != 1.0:
        lines.append(
            f"  the field is multiplied by 2^{round(math.log2(scale))} first: without it the sums may overflow"
        )
    if worst is not None:
        lines += ["", *("worst-case discretization error " + t if not i else t for i, t in enumerate(_lines(worst)))]
    return result, "\n".join([*lines, "", *textwrap.wrap(verdict, _WIDTH)])


def _worst_case(question: Question) -> Bound | None:
    """What the worst function of the class loses at least: known for a Euclidean Lipschitz constant."""
    if question.lipschitz is None or isinstance(question.lipschitz, Sequence) or question.periodic:
        return None
    assert question.sup is not None
    return lower_bound_discretization(
        question.frequency, question.sides, sup=question.sup, lipschitz=question.lipschitz
    )


def _verdict(question: Question, grid_bound: Bound, rounding: Bound, worst: Bound | None) -> str:
    large, small = (grid_bound, rounding) if grid_bound.value > rounding.value else (rounding, grid_bound)
    name = "discretization" if large is grid_bound else "precision"
    times = f"{large.value / small.value:.3g} times the other" if small.value > 0 else "the other is 0"
    text = f"The {name} bound is the larger one, {times}."
    if worst is not None and rounding.value <= worst.value:
        text += f" The worst function of this class loses more to the grid than any loses to {question.format}"
    elif worst is not None:
        text += f" Even the worst function of this class may lose more to {question.format} than to the grid"
    if worst is not None:
        text += _reach(question)
    return text + " Smooth functions lose far less to the grid: measure with --data."


def _reach(question: Question) -> str:
    """Up to which grid the worst function loses more to it."""
    assert question.sup is not None
    assert question.lipschitz is not None
    assert not isinstance(question.lipschitz, Sequence)
    if question.sup == 0 or float(question.lipschitz) == 0:
        return "."
    ratio = float(question.lipschitz) / question.sup
    side = crossover(question.format, len(question.sides), ratio, question.algorithm)
    if side == 0:
        return "; no grid is so coarse that it is otherwise."
    return f"; along one axis the grid is the larger worst case up to {side} points a side."


def sweep(question: Question) -> list[dict[str, Any]]:
    """Both bounds over resolution, for the plot."""
    rows = []
    for side in sorted({*_SWEEP, *question.sides}):
        sides = (side,) * len(question.sides)
        row: dict[str, Any] = {"side": side, "discretization_bound": discretization(question, sides).value}
        # No FFT on sides that are not powers of two, nor where it overflows at any scale.
        with suppress(InputError):
            row["precision_bound"] = precision(question, sides, sup=question.sup)[0].value
        rows.append(row)
    return rows


def bound_dict(bound: Bound) -> dict[str, Any]:
    return {
        "value": bound.value if math.isfinite(bound.value) else None,
        "theorem": bound.theorem,
        "assumptions": list(bound.assumptions),
        "guaranteed": bound.guaranteed,
    }


def _lines(bound: Bound) -> list[str]:
    return [
        wrapped
        for line in bound.describe().splitlines()
        for wrapped in textwrap.wrap(line, _WIDTH, subsequent_indent="    ", drop_whitespace=True)
    ]


def _text(sides: tuple[int, ...]) -> str:
    return " x ".join(map(str, sides))
