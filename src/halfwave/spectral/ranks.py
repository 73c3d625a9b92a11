"""Ranks of tensor factorizations, given as a fraction of the dense parameters or as integers.

A fraction f asks for about f times the parameters of the dense tensor of sizes I_1, ..., I_N; each factorization has
its own rule, which is tensorly's, so that the same argument gives the same model as in neuraloperator:

- CP: R = f ΠI / ΣI.
- Tucker: ranks c I_k, where c solves c^N ΠI + c ΣI² = f ΠI.
- TT: inner ranks c d_k with d_k = (I_k + I_k+1)/2, where c solves a quadratic equation for the parameters of the cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod, sqrt

Rank = float | int | Sequence[int]


def cp_rank(shape: Sequence[int], rank: Rank) -> int:
    """The number of terms R."""
    if not isinstance(rank, float):
        return _integer(rank, "cp", "a fraction in (0, 1] or a positive integer")
    found = round(prod(shape) * _fraction(rank) / sum(shape))
    if found < 1:
        raise ValueError(f"rank {rank} is too small for a tensor of shape {tuple(shape)}: it leaves no term at all")
    return found


def tucker_rank(shape: Sequence[int], rank: Rank) -> tuple[int, ...]:
    """The shape of the core."""
    accepted = f"a fraction in (0, 1], a positive integer or {len(shape)} of them"
    if isinstance(rank, Sequence):
        return _integers(rank, len(shape), "tucker", accepted)
    if not isinstance(rank, float):
        return (_integer(rank, "tucker", accepted),) * len(shape)
    fraction, dense, squares = _fraction(rank), prod(shape), sum(s * s for s in shape)
    from scipy.optimize import brentq  # here: it takes longer to import than a model to build

    scale = brentq(lambda c: dense * c ** len(shape) + squares * c - fraction * dense, 0.0, 1.0)
    return tuple(max(round(s * scale), 1) for s in shape)


def tt_rank(shape: Sequence[int], rank: Rank) -> tuple[int, ...]:
    """The ranks between neighbouring cores, with 1 at both ends."""
    accepted = f"a fraction in (0, 1], a positive integer or {len(shape) + 1} of them with 1 at both ends"
    if isinstance(rank, Sequence):
        ranks = _integers(rank, len(shape) + 1, "tt", accepted)
        if ranks[0] != 1 or ranks[-1] != 1:
            raise ValueError(f"rank {rank!r} does not fit tt: expected {accepted}")
        return ranks
    if not isinstance(rank, float):
        return (1, *(_integer(rank, "tt", accepted),) * (len(shape) - 1), 1)
    fraction = _fraction(rank)
    between = [(a + b) / 2 for a, b in pairwise(shape)]
    inner = sum(between[i - 1] * shape[i] * between[i] for i in range(1, len(shape) - 1))
    # A matrix has no inner core; tensorly counts its first one instead.
    a = inner if len(between) > 1 else between[0] ** 2 * shape[0]
    b = shape[0] * between[0] + shape[-1] * between[-1]
    scale = (-b + sqrt(b * b + 4 * a * prod(shape) * fraction)) / (2 * a)
    return (1, *(max(round(d * scale), 1) for d in between), 1)


def _fraction(rank: float) -> float:
    if not 0 < rank <= 1:
        raise ValueError(f"rank {rank!r} is out of range: expected a fraction in (0, 1] or a positive integer")
    return rank


def _integer(rank: Rank, name: str, accepted: str) -> int:
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise ValueError(f"rank {rank!r} does not fit {name}: expected {accepted}")
    return rank


def _integers(ranks: Sequence[int], count: int, name: str, accepted: str) -> tuple[int, ...]:
    if len(ranks) != count or isinstance(ranks, str):
        raise ValueError(f"rank {ranks!r} does not fit {name}: expected {accepted}")
    return tuple(_integer(rank, name, accepted) for rank in ranks)
