"""The four theorems as the paper prints them, for comparison. They are not guarantees: several fail (docs/theory.md).

n = m^d points on [0,1]^d, |v| <= M, Lipschitz constant L >= 1, an (a0, eps, T) precision system. Where the paper says
"there exists c", the constant of its proof is taken. Every result has ``guaranteed=False``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from halfwave.theory.bound import Bound, Number, read_count, read_number

_NOTE = ("as printed in the paper, where it does not always hold",)


def paper_bound_discretization(
    frequency: float | Sequence[float], points: int, dimension: int, *, sup: Number, lipschitz: Number
) -> Bound:
    """Theorem 3.1, upper: Disc <= 2 sqrt(d) (|w| + L) M n^(-1/d)."""
    size, slope = read_number("sup", sup), read_number("lipschitz", lipschitz)
    length = math.hypot(*frequency) if isinstance(frequency, Sequence) else abs(frequency)
    rate = math.sqrt(read_count("dimension", dimension)) * read_count("points", points) ** (-1.0 / dimension)
    return _printed(2.0 * rate * (length + slope) * size, "Theorem 3.1 (upper bound)")


def paper_lower_bound_discretization(points: int, dimension: int, *, sup: Number) -> Bound:
    """Theorem 3.1, lower (w = 1): sup Disc >= c1 sqrt(d) M n^(-2/d); c1 = pi/6 is what the proof gives at d = 1."""
    rate = math.sqrt(read_count("dimension", dimension)) * read_count("points", points) ** (-2.0 / dimension)
    return _printed(math.pi / 6.0 * rate * read_number("sup", sup), "Theorem 3.1 (lower bound)", "lower")


def paper_lower_bound_algebra(points: int, dimension: int) -> Bound:
    """The last line of that proof: d/(3 2^d pi^(d-2)) n^(1/(2d)), said to be the error of x_1...x_d at w = 1."""
    d = read_count("dimension", dimension)
    value = d / (3.0 * 2.0**d * math.pi ** (d - 2)) * read_count("points", points) ** (1.0 / (2.0 * d))
    return _printed(value, "Theorem 3.1 (last line of the proof)", "lower")


def paper_bound_precision(eps: float, *, sup: Number) -> Bound:
    """Theorem 3.2: Prec <= 4 eps M."""
    return _printed(4.0 * read_number("eps", eps) * read_number("sup", sup), "Theorem 3.2")


def paper_bound_discretization_general(points: int, dimension: int, *, lipschitz: Number) -> Bound:
    """Theorem A.1, upper: |int f - mean f| <= L sqrt(d) n^(-1/d). (It holds; T1 has A_d for sqrt(d).)"""
    rate = math.sqrt(read_count("dimension", dimension)) * read_count("points", points) ** (-1.0 / dimension)
    return _printed(rate * read_number("lipschitz", lipschitz), "Theorem A.1 (upper bound)")


def paper_lower_bound_discretization_general(points: int, dimension: int) -> Bound:
    """Theorem A.1, lower: sup |int f - mean f| >= 2^(1-d) d n^(-1/d)."""
    d = read_count("dimension", dimension)
    value = 2.0 ** (1 - d) * d * read_count("points", points) ** (-1.0 / d)
    return _printed(value, "Theorem A.1 (lower bound)", "lower")


def paper_bound_precision_general(eps: float, *, sup: Number) -> Bound:
    """Theorem A.2, upper: |mean f - mean q(f)| <= eps M."""
    return _printed(read_number("eps", eps) * read_number("sup", sup), "Theorem A.2 (upper bound)")


def paper_lower_bound_precision_general(eps: float, *, sup: Number) -> Bound:
    """Theorem A.2, lower: sup |mean f - mean q(f)| >= eps M/4."""
    return _printed(read_number("eps", eps) * read_number("sup", sup) / 4.0, "Theorem A.2 (lower bound)", "lower")


def _printed(value: float, theorem: str, kind: Literal["upper", "lower"] = "upper") -> Bound:
    return Bound(value, f"{theorem} of the paper", _NOTE, guaranteed=False, kind=kind)
