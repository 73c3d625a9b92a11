"""What a theorem returns: a number, who says so, under which assumptions, and whether it is guaranteed.

A bound is only as good as its inputs. A constant that was estimated from samples is an `Estimate`, and every bound
computed from one has ``guaranteed=False`` and says so when printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from halfwave.errors import InputError

# Each formula is a sum of products of numbers >= 0 without cancellation (factors 1 + x are kept as x: `growth`), some
# hundred operations in float64: a relative error below 1e-13 as long as nothing underflows there, and what underflows
# is below 2^-1074 times factors below 1e30. Ten times the first and all of the second, outward, keep the number on the
# right side of the mathematical one; tests/theory/test_outward.py compares with 60 digits.
OUTWARD = 1e-12
UNDERFLOWN = 1e-290


@dataclass(frozen=True)
class Estimate:
    """A number measured or estimated, never a guarantee.

    Attributes:
        value: the number.
        method: how it was obtained, in words.
    """

    value: float
    method: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"about {self.value:.4g} ({self.method})"


@dataclass(frozen=True)
class Bound:
    """A bound in one number, with its provenance.

    Attributes:
        value: the bound, rounded outward (up for an upper bound, down for a lower one).
        theorem: the name of the theorem that gave it.
        assumptions: what has to hold for it, one short sentence each.
        guaranteed: False where an input was an estimate: then the bound is an estimate too.
        kind: ``"upper"``, or ``"lower"`` for a bound on the worst case from below.
        witness: for lower bounds, the function of points of shape (..., d) that attains at least `value`.
    """

    value: float
    theorem: str
    assumptions: tuple[str, ...]
    guaranteed: bool = True
    kind: Literal["upper", "lower"] = "upper"
    witness: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        side = "at most" if self.kind == "upper" else "at least"
        standing = "guaranteed" if self.guaranteed else "an estimate, not a guarantee"
        given = f" if {'; '.join(self.assumptions)}" if self.assumptions else ""
        return f"{side} {_outward_digits(self.value, self.kind)} by {self.theorem}: {standing}{given}"

    def describe(self) -> str:
        """The bound in several lines: the figure, the theorem, and one line for each assumption."""
        side = "at most" if self.kind == "upper" else "at least"
        lines = [f"{side} {_outward_digits(self.value, self.kind)}", f"  theorem: {self.theorem}"]
        lines += [f"  assumes: {text}" for text in self.assumptions]
        return "\n".join([*lines, f"  standing: {'guaranteed' if self.guaranteed else 'estimate, not a guarantee'}"])


Number = float | int | Estimate | Bound
"""What a bound accepts as a constant: a plain number is taken as known, an Estimate makes the result an estimate."""


def read_number(name: str, value: Number, *, positive: bool = False) -> float:
    """The float behind `value`; raises unless it is finite and >= 0 (> 0 with `positive`)."""
    accepted = "a number > 0" if positive else "a number >= 0"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be {accepted}, got {value!r}") from None
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise InputError(f"{name} must be {accepted}, got {number!r}")
    return number


def read_count(name: str, value: int) -> int:
    """`value`; raises unless it is an integer >= 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} must be an integer >= 1, got {value!r}")
    return value


def read_per_axis(name: str, value: Number | Sequence[Number], dimension: int) -> tuple[float, ...]:
    """One constant for each axis: a single number stands for every axis."""
    if not is_several(value):
        return (read_number(name, value),) * dimension  # type: ignore[arg-type]
    items = list(value)  # type: ignore[arg-type]
    if len(items) != dimension:
        raise InputError(f"{name} has {len(items)} values: expected one number, or {dimension} (one for each axis)")
    return tuple(read_number(f"{name}[{axis}]", item) for axis, item in enumerate(items))


def is_several(value: object) -> bool:
    """A list, tuple or array with axes; not a number, not a zero-dimensional array, not a string."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0


def all_known(*values: object) -> bool:
    """False if any value, at any depth of sequences and mappings, is an estimate or a bound computed from one."""
    return not any(_is_estimate(value) for value in values)


def _is_estimate(value: object) -> bool:
    if isinstance(value, Estimate):
        return True
    if isinstance(value, Bound):
        return not value.guaranteed
    if isinstance(value, dict):
        return any(_is_estimate(item) for item in value.values())
    return isinstance(value, (tuple, list)) and any(_is_estimate(item) for item in value)


def outward_up(value: float) -> float:
    """A float that is certainly not below the real number >= 0 that `value` approximates: never 0."""
    return math.nextafter(value * (1.0 + OUTWARD) + UNDERFLOWN, math.inf)


def outward_down(value: float) -> float:
    """A float that is certainly not above the real number >= 0 that `value` approximates; 0 where nothing is sure."""
    return max(0.0, math.nextafter(value * (1.0 - OUTWARD) - UNDERFLOWN, -math.inf))


def upper(value: float, theorem: str, assumptions: Iterable[str], guaranteed: bool = True) -> Bound:
    """An upper bound, rounded up."""
    return Bound(outward_up(value), theorem, tuple(assumptions), guaranteed)


def smallest(candidates: Sequence[Bound]) -> Bound:
    """The tightest of several upper bounds; the first of equals, so that a plainer theorem may stand first."""
    return min(candidates, key=lambda bound: bound.value)


def _outward_digits(value: float, kind: str) -> str:
    """Four significant digits, still on the safe side: 0.00390625 is printed as 0.003907 when it bounds from above."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.4g}"
    digits = 3 - math.floor(math.log10(abs(value)))
    # A power of ten past the range of float64 would turn the figure into nan; such values are printed plainly.
    if abs(digits) > 290:
        return f"{value:.4g}"
    scaled = value * 10.0**digits
    # 1e-9 of a unit in the last digit printed: the outward rounding of the value itself should not cost a digit.
    whole = math.ceil(scaled - 1e-8) if kind == "upper" else math.floor(scaled + 1e-8)
    return f"{whole / 10.0**digits:.4g}"
