"""What a few inputs say of all others: statements with a probability, for every model and without any theory of it.

Three of them. `conformal_bound` holds for the next input if it comes from where the calibration inputs came from (they
are exchangeable), whatever the distribution. `interval_of_mean` holds for the mean over all inputs if no value leaves a
range that has to be assumed: the change of a test error is known by it, from the same inputs in half and in full.
`tolerance_bound` holds for nine of ten inputs, surely and from few of them, if logarithms of errors are normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from halfwave.errors import InputError

REACH = 2.0
"""No input moves the error by more than this times the largest move seen: the assumption of `change_of_error`."""
CONTENT, CONFIDENCE = 0.9, 0.99
"""Of `tolerance_bound`: the share of inputs that stay below, and how sure that is."""
_MOST_DEVIATIONS = 4.0
_CANDIDATES = 2001
_LARGEST_BET = 0.75


class ConformalBound(float):
    """A number that the score of a new input stays below with probability 1 - alpha; infinite where n is too small.

    Attributes:
        alpha: the probability of being above it.
        samples: n, the calibration inputs.
        rank: it is the rank-th smallest of their scores.
    """

    alpha: float
    samples: int
    rank: int

    def __new__(cls, value: float, alpha: float, samples: int, rank: int) -> ConformalBound:
        bound = super().__new__(cls, value)
        bound.alpha, bound.samples, bound.rank = alpha, samples, rank
        return bound

    @property
    def finite(self) -> bool:
        return math.isfinite(self)

    def __str__(self) -> str:
        if self.rank > self.samples:
            return f"none: {self.samples} inputs say nothing at {_percent(1 - self.alpha)}, {needed(self.alpha)} would"
        return (
            f"{float(self):.3g}: a new input of the same kind stays below with probability at least "
            f"{_percent(1 - self.alpha)} ({self.samples} calibration inputs)"
        )


def needed(alpha: float) -> int:
    """The fewest calibration inputs that give a finite bound: ceil((n + 1)(1 - alpha)) <= n."""
    return math.ceil((1 - alpha) / alpha - 1e-9)


def conformal_bound(scores: Tensor | Sequence[float], alpha: float) -> ConformalBound:
    """Split conformal prediction: the ceil((n + 1)(1 - alpha))-th smallest of n scores.

    If the n + 1 scores with that of the new input are exchangeable, the new one is at most this with probability at
    least 1 - alpha, and at most 1 - alpha + 1/(n + 1) where no two are equal (Vovk et al. 2005; Lei et al. 2018).
    The probability is over calibration inputs and new one together. Scores that are not finite count as the largest.
    """
    check_alpha(alpha)
    values = torch.as_tensor(scores, dtype=torch.float64).flatten()
    values = torch.where(values.isnan(), math.inf, values).sort().values
    # Rounding up a product like 9.000000000000002 would ask for one input too many.
    rank = math.ceil((len(values) + 1) * (1 - alpha) - 1e-9)
    value = float(values[rank - 1]) if 0 < rank <= len(values) else math.inf
    return ConformalBound(value, alpha, len(values), rank)


def tolerance_bound(errors: Tensor) -> float:
    """What 90% of all inputs stay below, 99% sure, from the errors (n,) of a few; infinite where one is not finite.

    exp(mean + k deviation) of log errors, which vary by factors from input to input and are taken as normal; k is the
    one-sided tolerance factor (Natrella 1963, section 2-2.5), 3.8 for 8 errors and 2.5 for 16. Of fewer than 8 it is
    held at 4 deviations, and of one error there are none: the confidence is lower then.
    """
    if not bool(errors.isfinite().all()):
        return math.inf
    logs = errors.double().clamp_min(torch.finfo(torch.float64).eps).log()
    deviation = float(logs.std()) if len(logs) > 1 else 0.0
    return math.exp(float(logs.mean()) + _deviations(len(logs)) * deviation)


def _deviations(count: int) -> float:
    """k, such that mean + k deviation of `count` normal values is above CONTENT of all with CONFIDENCE."""
    share, sure = (NormalDist().inv_cdf(p) for p in (CONTENT, CONFIDENCE))
    a = 1 - sure**2 / (2 * max(1, count - 1))
    if a <= 0:
        return _MOST_DEVIATIONS
    return min(_MOST_DEVIATIONS, (share + math.sqrt(share**2 - a * (share**2 - sure**2 / count))) / a)


@dataclass(frozen=True)
class Interval:
    """An interval for a mean, with what it assumes.

    Attributes:
        low, high: contain the mean over all inputs with probability at least 1 - alpha.
        mean: over the samples.
        alpha: the probability of missing it.
        samples: how many.
        reach: the values were assumed to lie within -reach and reach.
    """

    low: float
    mean: float
    high: float
    alpha: float
    samples: int
    reach: float

    @property
    def assumption(self) -> str:
        return f"no input changes its error by more than {self.reach:.2g}, and inputs are independent"

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "assumption": self.assumption}

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def change_of_error(
    half: Tensor | Sequence[float], full: Tensor | Sequence[float], *, alpha: float = 0.05, reach: float | None = None
) -> Interval:
    """An interval for the mean over all inputs of error(half) - error(full), from the errors of the same samples.

    `reach` is the largest change that any input can have. By default REACH times the largest seen: an assumption, as
    no finite sample shows the worst case, and the interval carries it.
    """
    errors = [torch.as_tensor(e, dtype=torch.float64).flatten() for e in (half, full)]
    if errors[0].shape != errors[1].shape or not len(errors[0]):
        raise InputError(f"{len(errors[0])} errors in half and {len(errors[1])} in full: expected pairs, at least one")
    change = errors[0] - errors[1]
    if not bool(change.isfinite().all()):
        raise InputError("an error is inf or nan: its mean has no interval")
    seen = float(change.abs().max())
    if reach is not None and not reach >= seen:
        raise InputError(f"reach is {reach}: a change of {seen:.3g} was seen, expected a larger number")
    return interval_of_mean(change, alpha=alpha, reach=REACH * seen if reach is None else reach)


def interval_of_mean(values: Tensor, *, alpha: float, reach: float) -> Interval:
    """The mean of i.i.d. values within [-reach, reach], by betting (Waudby-Smith and Ramdas 2024, hedged capital).

    For each candidate mean c one bets in turn, before seeing them, that the values lie above (and that they lie below)
    it: K(c) = prod_t (1 + λ_t (v_t - c)). If c is the mean, no strategy is expected to gain, so K(c) >= 2/alpha ever
    has probability alpha/2 (Ville); candidates against which a gambler got rich are excluded. Bets follow the
    variance seen so far, as an empirical Bernstein bound would, and the interval is several times shorter than that
    of Maurer and Pontil for a hundred values.
    """
    check_alpha(alpha)
    mean = float(values.double().mean())
    if reach == 0:
        return Interval(mean, mean, mean, alpha, len(values), 0.0)
    unit = (values.double() / reach + 1) / 2  # [0, 1]
    candidates = torch.linspace(0, 1, _CANDIDATES, dtype=torch.float64)
    bets = _bets(unit, alpha)[:, None]
    moves = unit[:, None] - candidates
    # A bet may lose everything, never more: it is at most a share of what a candidate allows.
    up = torch.log1p(torch.minimum(bets, _LARGEST_BET / candidates) * moves).cumsum(0)
    down = torch.log1p(-torch.minimum(bets, _LARGEST_BET / (1 - candidates)) * moves).cumsum(0)
    kept = candidates[(torch.maximum(up, down) < math.log(2 / alpha)).all(0)]
    step = 1 / (_CANDIDATES - 1)  # outward by a candidate on each side
    low, high = (float(kept.min()) - step, float(kept.max()) + step) if len(kept) else (0.0, 1.0)
    return Interval((2 * max(low, 0.0) - 1) * reach, mean, (2 * min(high, 1.0) - 1) * reach, alpha, len(values), reach)


def _bets(unit: Tensor, alpha: float) -> Tensor:
    """λ_t from the values before t: sqrt(2 log(2/alpha) / (n σ²_{t-1})), the bet that is best for n values."""
    n = len(unit)
    count = torch.arange(1, n + 1, dtype=torch.float64)
    means = (0.5 + unit.cumsum(0)) / (count + 1)
    variances = (0.25 + (unit - means).square().cumsum(0)) / (count + 1)
    before = torch.cat([torch.tensor([0.25], dtype=torch.float64), variances[:-1]])
    return (2 * math.log(2 / alpha) / (n * before.clamp(min=1e-12))).sqrt()


def check_alpha(alpha: float) -> None:
    """InputError unless it is a probability between 0 and 1."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha must be between 0 and 1, the probability of a miss; got {alpha}")


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"
