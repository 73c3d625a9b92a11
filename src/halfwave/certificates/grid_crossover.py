"""m*: the grid at which rounding and discretization cost a model's answer the same.

On coarser grids the grid is the larger error and half precision loses nothing that matters; on finer ones more digits
help more than more points. The grid's error D(m) falls, that of rounding p(m) hardly moves: where the curves cross
between grids that were computed, they are interpolated; beyond them D is continued by the law that fits better, a power
of m (fields with jumps or kinks) or an exponential (smooth ones), and the interval has both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Law = Literal["power", "exponential"]
Values = NDArray[np.float64]

SLOWEST_FALL = 0.2
"""D has to fall at least as m^-0.2 over the grids seen, or no crossing can be told."""
FEWEST_GRIDS = 3
UNSURE = 1.1
"""A rounding error is known to this factor at best."""
LONGEST = 1e4
"""An interval over more than four decades of grids says nothing."""


class Crossover(NamedTuple):
    """Points a side; `high` is infinite where the data do not say how fast D falls."""

    m: float
    low: float
    high: float


@dataclass(frozen=True)
class Level:
    """One grid: mean relative errors over the samples."""

    side: int
    grid_low: float
    grid_error: float
    grid_high: float
    predicted: float
    measured: float

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Curves:
    """D and p over grids, coarsest first."""

    levels: tuple[Level, ...]

    @property
    def sides(self) -> Values:
        return np.array([level.side for level in self.levels], dtype=float)

    def of(self, name: str) -> Values:
        return np.array([getattr(level, name) for level in self.levels], dtype=float)

    @property
    def law(self) -> Law:
        """Which of the two fits log D better."""
        logs = np.log(self.of("grid_error"))
        power, exponential = (_residual(u, logs) for u in (np.log(self.sides), self.sides))
        return "power" if power <= exponential else "exponential"

    @property
    def order(self) -> float:
        """The mean order of convergence s of D ~ m^-s over the grids seen."""
        return -float(np.polyfit(np.log(self.sides), np.log(self.of("grid_error")), 1)[0])


def find_crossover(curves: Curves) -> Crossover | str:
    """m* with its interval, or in words why there is none."""
    if len(curves.levels) < FEWEST_GRIDS:
        return f"{len(curves.levels)} grids are too few to see how the grid's error falls: {FEWEST_GRIDS} are needed"
    errors, rounding = curves.of("grid_error"), curves.of("predicted")
    if not (np.isfinite(errors).all() and np.isfinite(rounding).all() and (rounding > 0).all()):
        return "an error is not finite, or the precision has none"
    if not (errors > 0).all():
        return "the grid has no error that could be seen"
    sides = f"{curves.sides[0]:.0f} to {curves.sides[-1]:.0f} points a side"
    if curves.order < SLOWEST_FALL:
        return f"the grid's error does not fall on grids of {sides}"
    # Between what was predicted and what was seen, and never taken for exact.
    seen = curves.of("measured")
    most, least = np.maximum(rounding, seen) * UNSURE, np.minimum(rounding, seen) / UNSURE
    middle = _cross(curves, errors, rounding, curves.law)
    low = _cross(curves, np.maximum(curves.of("grid_low"), 1e-300), most, "exponential")
    high = _cross(curves, curves.of("grid_high"), least, "power")
    found = Crossover(middle, min(low, middle), max(high, middle))
    if not math.isfinite(middle) or found.high > LONGEST * found.low:
        return f"the errors on grids of {sides} do not tell where they would be equal"
    return found


def _cross(curves: Curves, errors: Values, rounding: Values, law: Law) -> float:
    """The largest grid up to which D >= p: interpolated in log-log, continued with the slope of the nearest grids."""
    sides = curves.sides
    above = np.log(errors) - np.log(rounding)
    if not np.isfinite(above).all():
        return math.inf
    places = [k for k in range(len(sides) - 1) if above[k] >= 0 > above[k + 1]]
    if places:
        k = places[-1]
        share = above[k] / (above[k] - above[k + 1])
        return float(sides[k] * (sides[k + 1] / sides[k]) ** share)
    fall = np.log(curves.of("grid_error"))
    end = -1 if above[-1] >= 0 else 0
    near, far = (sides[-2], sides[-1]) if end else (sides[0], sides[1])
    drop = float(fall[-2] - fall[-1] if end else fall[0] - fall[1])
    if drop <= 0:
        return math.inf if end else 1.0
    if law == "exponential":
        return max(1.0, float(sides[end] + above[end] * (far - near) / drop))
    return max(1.0, float(sides[end] * (far / near) ** min(above[end] / drop, 60.0)))


def _residual(u: Values, logs: Sequence[float] | Values) -> float:
    return float(np.polyfit(u, logs, 1, full=True)[1].sum())
