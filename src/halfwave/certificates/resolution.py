"""Resolution and precision together: a model's rounding errors beside the errors of its grids, and where they cross."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from halfwave.certificates.answers import Inputs, relative_errors
from halfwave.certificates.grid_crossover import Crossover, Curves, Level, find_crossover
from halfwave.certificates.grid_error import SMALLEST, GridError, estimate_grid_errors
from halfwave.certificates.observing import Versions, fno_blocks, observe
from halfwave.certificates.sensitivity import predict_error
from halfwave.domains import Domain, Sphere, Torus
from halfwave.errors import InputError
from halfwave.models import GridOperator
from halfwave.precision import Policy
from halfwave.spectral import FourierTransform, SphericalTransform

Limit = Literal["grid", "rounding", "cannot tell"]

PREDICTED = 2
"""Samples whose rounding error is predicted on a coarser grid."""


@dataclass(frozen=True)
class Resolution:
    """What was found on the first few samples, or why nothing was.

    Attributes:
        own: the error of the grid that the inputs have, of each sample; None where it is not estimated.
        measured: the rounding error of the same samples.
        curves: both errors over the grids, None as above.
        crossover: m* with its interval, or None.
        reason: why there is no crossover, in words.
    """

    own: GridError | None
    measured: Tensor
    curves: Curves | None
    crossover: Crossover | None
    reason: str = ""

    @property
    def limits(self) -> Limit | None:
        """Which error is the larger in *every* sample; None where the grid's was not estimated."""
        if self.own is None:
            return None
        if bool((self.measured < self.own.low).all()):
            return "grid"
        return "rounding" if bool((self.measured > self.own.high).all()) else "cannot tell"

    def to_dict(self) -> dict[str, Any]:
        own = self.own
        return {
            "limits": self.limits,
            "grid_error": None if own is None else own.value,
            "grid_error_low": None if own is None else own.low,
            "grid_error_high": None if own is None else own.high,
            "crossover": None if self.crossover is None else self.crossover._asdict(),
            "no_crossover": self.reason or None,
            "rows": [] if self.curves is None else [level.to_dict() for level in self.curves.levels],
        }


@dataclass(frozen=True)
class GridRounding:
    """What the policy does on the grid of the inputs: errors of each sample, predicted and measured."""

    policy: Policy
    predicted: Tensor
    measured: Tensor


def compare_with_grid(
    models: Versions, x: Inputs, rounding: GridRounding, samples: int, finer: Tensor | None
) -> Resolution:
    """On the first `samples`, or as many as `finer` has."""
    measured = rounding.measured
    count = min(samples, len(x)) if finer is None else min(len(finer), len(x))
    domain = _domain(models.exact, x) if count else "it was not asked for"
    if isinstance(domain, str) or not isinstance(x, Tensor):
        if finer is not None:
            raise InputError(f"finer inputs are of no use: {domain}")
        return Resolution(None, measured[:0], None, None, str(domain))
    fields = x[:count]
    finer = None if finer is None else _checked(finer[:count], fields)
    errors = estimate_grid_errors(models.exact, fields, domain, finer)
    own = _level(errors[0], rounding.predicted[:count], measured[:count])
    coarse = [_coarse_level(models, domain.resample(fields, e.grid), rounding.policy, e) for e in errors[1:]]
    curves = Curves((*reversed(coarse), own))
    found = find_crossover(curves)
    crossover, reason = (None, found) if isinstance(found, str) else (found, "")
    return Resolution(errors[0], measured[:count], curves, crossover, reason)


def _coarse_level(models: Versions, x: Tensor, policy: Policy, error: GridError) -> Level:
    chosen, exact = (observe(model, x, []).output for model in (models.chosen, models.exact))
    # GridRounding hardly depends on the grid, and little on the sample.
    predicted = predict_error(models.chosen, x[:PREDICTED], policy)
    return _level(error, predicted, relative_errors(chosen, exact, x))


def _level(error: GridError, predicted: Tensor, measured: Tensor) -> Level:
    figures = (error.low, error.value, error.high, predicted, measured)
    return Level(error.side, *(float(figure.mean()) for figure in figures))


def _domain(model: nn.Module, x: Inputs) -> Domain | str:
    """Where the fields live, or why their grid has no error of its own."""
    name = type(model).__name__
    if not isinstance(x, Tensor):
        return f"a {name} takes points, and its latent grid is part of the model: it has no grid error of its own"
    if not isinstance(model, GridOperator) or type(model).forward is not GridOperator.forward:
        return f"a {name} is not a function of fields on any grid: its answer has no grid error of its own"
    if any(block.factors and set(block.factors) != {1} for block in fno_blocks(model).values()):
        return "a block has a resolution_scaling_factor: inputs and answers are not on one grid"
    if min(x.shape[2:]) < SMALLEST:
        return (
            f"a grid of {' x '.join(map(str, x.shape[2:]))} is too coarse to be compared with half and a quarter of it"
        )
    if isinstance(model.transform, SphericalTransform):
        return Sphere("equiangular" if model.transform.grid == "equiangular" else "legendre-gauss")
    assert isinstance(model.transform, FourierTransform)
    return Torus((1.0,) * model.transform.dim)


def _checked(finer: Tensor, x: Tensor) -> Tensor:
    multiples = [fine % side for fine, side in zip(finer.shape[2:], x.shape[2:], strict=True)]
    if any(multiples) or finer.shape[2:] == x.shape[2:] or finer.shape[1] != x.shape[1]:
        raise InputError(
            f"finer has shape {tuple(finer.shape)}: expected the samples of x, {tuple(x.shape)}, with a multiple of "
            "its points a side"
        )
    return finer
