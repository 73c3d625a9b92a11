"""What a model has to beat: predictors of a dataset that need no network, the mean and a linear map.

On a grid the linear map takes the whole input to the whole output, y = mean + (x - mean) W, by ridge regression in its
dual form; on bodies, whose points correspond, it takes their parameters to the pressure at each point. The strength of
the ridge is the one that a fifth of the train samples likes best.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.data import Dataset, PointDataset
from halfwave.training import AnyDataset, RelativeL2

_STRENGTHS = tuple(10.0**k for k in range(-10, 2))
_HELD_OUT = 5
_MOST_SAMPLES = 2000


@dataclass(frozen=True)
class Table:
    """A split as flat rows: inputs (N, P), outputs (N, C, points)."""

    x: Tensor
    y: Tensor


def baselines_of(dataset: AnyDataset, speed: str | None = None) -> dict[str, float | None]:
    """Mean relative L2 errors on the test split, {"mean_l2", "linear_l2"}; None on clouds without correspondence.

    Of bodies that a model learns in units of the wind the predictors learn p/V^2 too, by the parameter `speed`.
    """
    train, test = (_table(dataset, split, speed) for split in ("train", "test"))
    if train is None or test is None or train.y.shape[1:] != test.y.shape[1:]:
        return {"mean_l2": None, "linear_l2": None}
    domain = dataset.domain if isinstance(dataset, Dataset) else None

    def error(prediction: Tensor) -> float:
        flat = RelativeL2(None) if domain is None else RelativeL2(domain)
        shaped = prediction.reshape(_shape(dataset, test.y))
        return float(flat.per_sample(shaped, test.y.reshape(shaped.shape)).mean())

    return {"mean_l2": error(train.y.mean(0).expand_as(test.y)), "linear_l2": error(_linear(train, test.x))}


def _table(dataset: AnyDataset, name: str, speed: str | None) -> Table | None:
    if isinstance(dataset, PointDataset):
        samples = list(getattr(dataset, name))
        if len({len(sample.pressure) for sample in samples}) > 1:
            return None
        pressures = torch.stack([sample.pressure for sample in samples]).double()[:, None]
        parameters = torch.stack([sample.parameters for sample in samples]).double()
        if speed is not None:  # a factor of each sample, which its relative error does not see
            pressures = pressures / parameters[:, list(dataset.parameter_names).index(speed), None, None] ** 2
        return Table(parameters, pressures)
    x, y = getattr(dataset, name)[:_MOST_SAMPLES]
    return Table(x.double().flatten(1), y.double().flatten(2))


def _shape(dataset: AnyDataset, y: Tensor) -> tuple[int, ...]:
    grid = dataset.grid if isinstance(dataset, Dataset) else y.shape[2:]
    return (*y.shape[:2], *grid)


def _linear(train: Table, x: Tensor) -> Tensor:
    """The answer of the ridge regression that does best on the train samples held out."""
    held = torch.arange(len(train.x)) % _HELD_OUT == 0
    if not bool(held.any()) or bool(held.all()):
        return _ridge(train, x, _STRENGTHS[0])
    fitted, checked = (Table(train.x[rows], train.y[rows]) for rows in (~held, held))
    errors = {s: float((_ridge(fitted, checked.x, s) - checked.y).norm()) for s in _STRENGTHS}
    return _ridge(train, x, min(errors, key=lambda strength: errors[strength]))


def _ridge(train: Table, x: Tensor, strength: float) -> Tensor:
    """mean + k(x, X) (K + s tr(K)/N)^-1 (Y - mean), K = X X^T of standardised inputs."""
    mean, size = train.x.mean(0), train.x.std(0, correction=0).clamp_min(1e-12 * (1 + train.x.abs().max()))
    inside, asked = (train.x - mean) / size, (x - mean) / size
    middle = train.y.mean(0)
    kernel = inside @ inside.T
    ridge = strength * kernel.diagonal().mean() * torch.eye(len(kernel), dtype=kernel.dtype)
    weights = torch.linalg.solve(kernel + ridge, (train.y - middle).flatten(1))
    return middle + (asked @ inside.T @ weights).reshape(len(x), *train.y.shape[1:])
