"""How a model is called and how its answers are compared, sample by sample: fields on a grid or point clouds.

Inputs are a tensor (N, C, *grid), or a list with the keyword arguments of each sample of a model that takes points.
Errors are relative L2 norms of each sample by itself: a ratio of maxima over samples of different scale says nothing of
any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.errors import InputError

Arguments = Mapping[str, Any]
Part = Tensor | Arguments
"""What a model is called with: some fields, or the keyword arguments of one cloud."""
Inputs = Tensor | list[Arguments]

TOGETHER = 8
"""Fields that are looked at together: what passes through all layers of them is kept in float64."""


def as_inputs(x: Any) -> Inputs:
    """A tensor as it is; keyword arguments, a batch of packed clouds or a sequence of either as a list of samples."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Mapping):
        return list(_separated(x))
    if callable(getattr(x, "arguments", None)):
        return list(_separated(x.arguments()))
    if isinstance(x, Sequence) and x and all(isinstance(sample, Mapping) for sample in x):
        return [sample for batch in x for sample in _separated(batch)]
    raise InputError(f"x is a {type(x).__name__}: expected a tensor, or the keyword arguments of a model of points")


def _separated(batch: Arguments) -> Iterator[Arguments]:
    """The keyword arguments of a GINO for one geometry after the other, or for one function after the other."""
    bounds = batch.get("input_offsets")
    functions = [batch[name] for name in ("x", "latent_features") if batch.get(name) is not None]
    count = len(bounds) - 1 if bounds is not None else max((len(f) for f in functions), default=1)
    for n in range(count):
        yield {name: _of_sample(name, value, n, count, batch) for name, value in batch.items()}


def _of_sample(name: str, value: Any, n: int, count: int, batch: Arguments) -> Any:
    if not isinstance(value, Tensor) or count == 1:
        return value
    if name.endswith("_offsets"):
        return value[n : n + 2] - value[n]
    rows = {"input_geom": "input_offsets", "x": "input_offsets", "output_queries": "output_offsets"}
    bounds = batch.get(rows.get(name, ""))
    if bounds is not None:
        return value[int(bounds[n]) : int(bounds[n + 1])]
    # A grid of points (*axes, d), with or without the geometries before; other batches share what they have once.
    own = value.ndim == value.shape[-1] + 2 if name == "latent_queries" else len(value) == count
    return value[n : n + 1] if own and len(value) == count else value


def call(model: nn.Module, x: Any) -> Tensor:
    """The model's answer to inputs, or to whatever a wrapper around it takes."""
    answer = model(**x) if isinstance(x, Mapping) else model(x)
    if not isinstance(answer, Tensor):
        raise InputError(f"the model answered with a {type(answer).__name__}: a certificate needs one tensor")
    return answer


def parts(x: Inputs, size: int = TOGETHER) -> Iterator[Part]:
    """A few fields at a time, or one cloud."""
    if not isinstance(x, Tensor):
        yield from x
        return
    for start in range(0, len(x), size):
        yield x[start : start + size]


def check_inputs(x: Inputs) -> None:
    """InputError where there is no sample, or one with numbers that are none."""
    if not len(x):
        raise InputError("x holds no sample: there is nothing to certify")
    for part in parts(x):
        values = [part] if isinstance(part, Tensor) else [v for v in part.values() if isinstance(v, Tensor)]
        if not all(bool(value.isfinite().all()) for value in values):
            raise InputError("x holds inf or nan: there is nothing to certify")


def norms(answer: Tensor, x: Part) -> Tensor:
    """The l2 norm of each sample of the answer to `x`, in float64: (N,) of fields, (1,) of a cloud."""
    wide = answer.detach().double()
    return wide.flatten(1).norm(dim=1) if isinstance(x, Tensor) else wide.norm().reshape(1)


def relative_errors(answer: Tensor, reference: Tensor, x: Part) -> Tensor:
    """||answer - reference|| / ||reference|| of each sample; inf where it is not finite, absolute where that is 0."""
    return ratio(norms(answer.double() - reference.double(), x), norms(reference, x))


def ratio(error: Tensor, size: Tensor) -> Tensor:
    found = error / torch.where(size > 0, size, 1.0)
    return torch.where(found.isfinite(), found, torch.inf)
