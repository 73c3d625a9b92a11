"""Lines over a common axis as SVG inside a page: sharp at every width, in the colours of the page's own scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

WIDTH, HEIGHT = 400, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 44
_TICKS = 5
_DECADE = 10.0


@dataclass(frozen=True)
class Curve:
    """One line: its name, and its points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, name: str, x: Sequence[float], y: Sequence[float | None]) -> Curve:
        """The values that there are; None is one that was not measured, over which the line goes on."""
        return cls(name, tuple((float(a), float(b)) for a, b in zip(x, y, strict=True) if b is not None))


@dataclass(frozen=True)
class Tick:
    """A place on an axis, in units of the picture, and what stands there."""

    at: float
    text: str


@dataclass(frozen=True)
class LineChart:
    """Curves with a logarithmic y axis (and x axis, with `log_x`), for the template `parts.html`.

    Where a value is not positive a logarithm has no place for it: it is left out, and the line is broken there.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False

    @property
    def is_empty(self) -> bool:
        return not self._kept()

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def height(self) -> int:
        return HEIGHT

    @property
    def frame(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        return _LEFT, _TOP, WIDTH - _RIGHT, HEIGHT - _BOTTOM

    @property
    def lines(self) -> list[tuple[str, list[str]]]:
        """The name of each curve, and its unbroken parts as the points of polylines."""
        return [(curve.name, self._parts(curve)) for curve in self.curves]

    @property
    def x_ticks(self) -> list[Tick]:
        low, high = self._x_range()
        values = _powers(low, high) if self.log_x else _round_values(low, high)
        return [Tick(self._x(value), f"{value:g}") for value in values if low <= value <= high]

    @property
    def y_ticks(self) -> list[Tick]:
        low, high = self._y_range()
        values = _powers(low, high) if high > _DECADE * low else _round_values(low, high)
        return [Tick(self._y(value), f"{value:.3g}") for value in values]

    def _kept(self) -> list[tuple[float, float]]:
        return [point for curve in self.curves for point in curve.points if self._fits(point)]

    def _fits(self, point: tuple[float, float]) -> bool:
        return math.isfinite(point[1]) and point[1] > 0 and (point[0] > 0 or not self.log_x)

    def _x_range(self) -> tuple[float, float]:
        found = [x for x, _ in self._kept()]
        low, high = min(found), max(found)
        return (low, high) if high > low else (low - 0.5 if not self.log_x else low / 2, high + 0.5)

    def _y_range(self) -> tuple[float, float]:
        found = [y for _, y in self._kept()]
        low, high = min(found), max(found)
        return (low, high) if high > 1.05 * low else (low / 1.5, high * 1.5)

    def _x(self, value: float) -> float:
        low, high = self._x_range()
        share = math.log(value / low) / math.log(high / low) if self.log_x else (value - low) / (high - low)
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def _y(self, value: float) -> float:
        low, high = self._y_range()
        return round(HEIGHT - _BOTTOM - math.log(value / low) / math.log(high / low) * (HEIGHT - _TOP - _BOTTOM), 1)

    def _parts(self, curve: Curve) -> list[str]:
        runs = groupby(curve.points, key=self._fits)
        return [" ".join(f"{self._x(x)},{self._y(y)}" for x, y in run) for fits, run in runs if fits]


def _powers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two positive numbers; powers alone where those are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    inside = [value for value in fine if low <= value <= high]
    if len(inside) > 2 * _TICKS:
        step = max(1, len(decades) // _TICKS)
        inside = [10.0**decade for decade in decades[::step] if low <= 10.0**decade <= high]
    return inside or [low, high]


def _round_values(low: float, high: float) -> list[float]:
    """A few round numbers between two others."""
    step = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= _TICKS)
    first = math.ceil(low / step)
    return [round(number * step, 10) for number in range(first, math.floor(high / step) + 1)]
