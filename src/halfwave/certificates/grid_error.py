"""What a grid itself costs a model's answer: an interval for ||f_m - f_infinity||, sample by sample.

The difference between a grid and every second point of it is the error of the *coarser* one. That of the grid m has two
parts. The model's: its layers multiply and bend fields, and the frequencies that this makes beyond m/2 come back as
others. It is measured: the input is interpolated to 2m points without new frequencies, f_2m applied, and compared,

    b_m = ||f_m(x) - f_2m(I x)||   on the points of m.

The data's: what the field does between the points of m, which no grid shows. It is extrapolated from what the coarser
grids m/2 and m/4 miss of the field on m, i_{m/2} and i_{m/4}, if that falls at a rate r: i_m <= i_{m/2} r/(1-r).

From below only what was measured counts. A field without frequencies beyond m has exactly b_m; for others the two parts
add as vectors, and may cancel. How much of b they leave is seen one grid coarser, where all three are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from halfwave.domains import Domain
from halfwave.models import trial_run

Operator = Callable[[Tensor], Tensor]

SMALLEST = 16
"""Points a side below which the grids m/2 and m/4 say nothing."""
SLOWEST = 0.8
"""A data error that falls by less than this from grid to grid is not seen to converge."""
FLOOR = 2.0**-21
"""Data are fp32 numbers: what their own rounding does falls at no rate, and nothing below it can be told."""
SAFETY = 2.0
"""What the rate seen may be wrong by: the data's part is multiplied, and what is left of b divided, by this."""
MARGIN = 1.25
"""Upper ends are raised by this: rates on grids that resolve little are themselves rough."""


@dataclass(frozen=True)
class GridError:
    """The error of one grid, an entry for each sample, relative to the norm of the answer.

    Attributes:
        grid: points along each axis.
        low, high: contain it; `high` is infinite where the data's part is not seen to converge.
        value: the likeliest, between them.
    """

    grid: tuple[int, ...]
    low: Tensor
    value: Tensor
    high: Tensor

    @property
    def side(self) -> int:
        return self.grid[0]

    @property
    def known(self) -> bool:
        """Is there an upper end for every sample?"""
        return bool(self.high.isfinite().all())


def estimate_grid_errors(
    model: Operator, x: Tensor, domain: Domain, finer: Tensor | None = None
) -> tuple[GridError, ...]:
    """The errors of the grid of `x` (N, C, *grid) and of two or three coarser ones, finest first.

    Args:
        model: the exact one, from fields to fields on the same grid, in float64.
        x: inputs; each side has at least SMALLEST points.
        domain: where they live: how they are interpolated.
        finer: the same inputs on a finer grid, where the user has them: the data's part is then measured as well.
    """
    x, finer = x.double(), None if finer is None else finer.double()
    rows = [_of_sample(model, x[n : n + 1], domain, None if finer is None else finer[n : n + 1]) for n in range(len(x))]
    return tuple(_stacked(level) for level in zip(*rows, strict=True))


def coarser_grids(grid: tuple[int, ...]) -> list[tuple[int, ...]]:
    """m/2 and m/4, and m/8 where that leaves SMALLEST / 2 points."""
    steps = [2, 4, 8] if min(grid) // 8 >= SMALLEST // 2 else [2, 4]
    return [tuple(side // step for side in grid) for step in steps]


def _of_sample(model: Operator, x: Tensor, domain: Domain, finer: Tensor | None) -> list[GridError]:
    grid = tuple(x.shape[2:])
    answers = _Answers(model, domain)
    if finer is None:
        reference, own = answers.refined(x), _own_error(answers, x)
    else:
        reference = answers(finer)
        rest = _own_error(_Answers(model, domain), finer)
        own = _around(grid, answers.distance(answers(x), reference), rest)
    found = [own]
    for coarse in coarser_grids(grid):
        seen = answers.distance(answers(domain.resample(x, coarse)), reference)
        # The reference is off by the error of its own grid, at most; and no grid is better than a finer one.
        level = _around(coarse, seen, own)
        found.append(replace(level, low=torch.maximum(level.low, own.low)))
    return found


def _around(grid: tuple[int, ...], seen: float, rest: GridError) -> GridError:
    """An error that was measured against a grid which has the error `rest` itself."""
    spread = float(rest.high)
    # A reference that is likely twice as close as what was seen leaves half of that at least.
    likely = seen / SAFETY if float(rest.value) <= seen / SAFETY else 0.0
    low = max(seen - spread, likely, 0.0)
    return _one(grid, low, seen, seen + spread)


def _own_error(answers: _Answers, x: Tensor) -> GridError:
    """The interval of the grid that `x` has."""
    grid = tuple(x.shape[2:])
    domain = answers.domain
    half, quarter = (tuple(side // step for side in grid) for step in (2, 4))
    fine, coarse = answers(x), domain.resample(x, half)
    b = answers.distance(fine, answers.refined(x))
    b_half = answers.distance(answers(coarse), answers(domain.resample(coarse, grid)))
    total_half = answers.distance(answers(coarse), answers.refined(x))
    i_half, i_quarter = (_data_part(answers, x, grid) for grid in (half, quarter))
    i = _extrapolated(i_half, i_quarter)
    # What b leaves out, as f_2m is not the limit either.
    rest = _extrapolated(b, b_half)
    kept = min(1.0, total_half / b_half) if b_half > 0 else 0.0
    low = max(b - rest - SAFETY * i, b * kept / SAFETY)
    high = MARGIN * (b + rest + SAFETY * i)
    return _one(grid, low, _between(low, math.hypot(b, i), high), high)


def _one(grid: tuple[int, ...], *figures: float) -> GridError:
    """Of one sample."""
    return GridError(grid, *(torch.tensor([figure], dtype=torch.float64) for figure in figures))


def _data_part(answers: _Answers, x: Tensor, coarse: tuple[int, ...]) -> float:
    """||f_m(x) - f_m(I x_coarse)|| on the coarse points: what they do not see of the field, through the model on m."""
    domain, grid = answers.domain, tuple(x.shape[2:])
    unseen = answers(domain.resample(domain.resample(x, coarse), grid))
    return answers.distance(domain.resample(unseen, coarse), answers(x))


def _extrapolated(fine: float, coarse: float) -> float:
    """e (r + r^2 + ...), r = e/e' the errors of a grid and of one with half as many points; infinite for r near 1."""
    if fine <= FLOOR:
        return fine
    rate = fine / coarse if coarse > 0 else math.inf
    return fine * rate / (1 - rate) if rate < SLOWEST else math.inf


def _between(low: float, value: float, high: float) -> float:
    """Where there is no estimate, the lower end is what is known."""
    return min(max(value, low), high) if math.isfinite(value) else low


class _Answers:
    """The model's answers to fields of one sample, each grid and field computed once."""

    def __init__(self, model: Operator, domain: Domain) -> None:
        self.model, self.domain = model, domain
        self._seen: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        if id(x) not in self._seen:
            self._seen[id(x)] = (x, self._run(x))  # the field too: its id must stay its own
        return self._seen[id(x)][1]

    @torch.no_grad()
    def _run(self, x: Tensor) -> Tensor:
        if not isinstance(self.model, nn.Module):
            return self.model(x)
        with trial_run(self.model):
            return self.model(x)

    def refined(self, x: Tensor) -> Tensor:
        """f_2m(I x)."""
        key = -id(x)
        if key not in self._seen:
            double = tuple(2 * side for side in x.shape[2:])
            self._seen[key] = (x, self._run(self.domain.resample(x, double)))
        return self._seen[key][1]

    def distance(self, one: Tensor, other: Tensor) -> float:
        """On the points of the coarser of the two, relative to the finer one."""
        coarse, fine = sorted((one, other), key=Tensor.numel)
        fine = self.domain.resample(fine, tuple(coarse.shape[2:]))
        size = float(fine.norm())
        return float((coarse - fine).norm()) / size if size > 0 else math.inf


def _stacked(levels: tuple[GridError, ...]) -> GridError:
    return GridError(levels[0].grid, *(torch.cat([getattr(e, n) for e in levels]) for n in ("low", "value", "high")))
