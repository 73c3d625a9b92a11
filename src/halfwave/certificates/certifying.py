"""certify: what a precision policy does to the answers of a model, and whether that matters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.answers import (
    Inputs,
    Part,
    as_inputs,
    check_inputs,
    norms,
    parts,
    ratio,
    relative_errors,
)
from halfwave.certificates.certificate import Certificate
from halfwave.certificates.convolution_certificate import ConvolutionCertificate, joined
from halfwave.certificates.convolution_errors import certify_convolutions
from halfwave.certificates.error_change import TestErrors
from halfwave.certificates.finite_sample import change_of_error, check_alpha
from halfwave.certificates.norms import rms
from halfwave.certificates.observing import Versions, core_of, observe, run_as
from halfwave.certificates.remarks import concerns, notes
from halfwave.certificates.resolution import GridRounding, compare_with_grid
from halfwave.certificates.sensitivity import sensitivities
from halfwave.errors import InputError
from halfwave.models import NeuralOperator
from halfwave.precision import Policy, PolicyModule, as_policy

GRID_SAMPLES = 4
"""Samples on which the grid's own error is estimated: each runs on a grid of twice as many points a side."""


def certify(
    model: nn.Module,
    x: Any,
    policy: str | Policy,
    *,
    alpha: float = 0.1,
    targets: Any = None,
    finer: Tensor | None = None,
    grid_samples: int = GRID_SAMPLES,
) -> Certificate:
    """Run `model` on `x` in float64, in fp32 and under `policy`; predict the same; say what it means.

    Args:
        model: any model of this library, or a wrapper around one (then the errors are those of the operator inside, in
            its own units). It is copied, not changed.
        x: inputs (N, C, *grid). Of a model that takes points: its keyword arguments, a batch of `Clouds`, or a list of
            keyword arguments. For a statement on new inputs at 90% give at least 9 of them (1/alpha - 1).
        policy: a `Policy` or the name of one.
        alpha: how often a new input may be above the conformal bound.
        targets: true answers, in the units of `model`: then the change of the test error has an interval.
        finer: the same inputs on a finer grid (N or the first few), where there are any: the grid's error is then
            measured against them instead of being extrapolated.
        grid_samples: on how many samples the grid's own error is estimated; 0 for none.

    A stabilizer changes the function; the float64 and fp32 runs have the same one, so that errors are of rounding
    alone, and what it changes is reported apart.
    """
    chosen = as_policy(policy)
    check_alpha(alpha)
    inputs = _check(model, x, grid_samples)
    core, inner = core_of(model, inputs if isinstance(inputs, Tensor) else x)
    inside = as_inputs(inner)
    models = Versions.of(core, next(parts(inside)), chosen)
    looks = [_look(models, part) for part in parts(inside)]
    convolutions = tuple(joined(same) for same in zip(*(look.convolutions for look in looks), strict=True))
    adjoint = sensitivities(core, inside, policy=chosen)
    predicted, measured = adjoint.predict(chosen), torch.cat([look.measured for look in looks])
    fine = None if finer is None else core_of(model, finer.detach().float())[1]
    resolution = compare_with_grid(models, inside, GridRounding(chosen, predicted, measured), grid_samples, fine)
    bounds = [look.answer_bound for look in looks if look.answer_bound is not None]
    answer_bound = torch.cat(bounds) if len(bounds) == len(looks) else None
    return Certificate(
        policy=chosen,
        model=type(core).__name__,
        alpha=alpha,
        grid=tuple(inside.shape[2:]) if isinstance(inside, Tensor) else None,
        predicted_error=predicted,
        predicted_upper=adjoint.upper(chosen, 1 - alpha),
        measured_error=measured,
        fp32_error=torch.cat([look.fp32 for look in looks]),
        answer_bound=answer_bound,
        convolutions=convolutions,
        resolution=resolution,
        test_errors=None if targets is None else _test_errors(model, core, x, looks, targets),
        stabilizer_change=_stabilizer_change(models, inside, convolutions),
        concerns=concerns(models.chosen, convolutions, measured),
        notes=notes(convolutions, answer_bound),
    )


def _check(model: nn.Module, x: Any, grid_samples: int) -> Inputs:
    if not any(isinstance(module, PolicyModule) for module in model.modules()):
        raise InputError(
            f"{type(model).__name__} has no layer that honours a precision policy: certify needs a model of this "
            "library, or a converted one"
        )
    if grid_samples < 0:
        raise InputError(f"grid_samples must be 0 or more, got {grid_samples}")
    inputs = as_inputs(x.detach().float() if isinstance(x, Tensor) else x)
    check_inputs(inputs)
    points = any(isinstance(module, NeuralOperator) and module.takes_points for module in model.modules())
    if points is isinstance(inputs, Tensor):
        kinds = ("a mapping of its keyword arguments, or a batch of clouds", "a tensor (batch, channels, *grid)")
        raise InputError(f"x is {'a tensor' if points else 'no tensor'}: the model takes {kinds[0 if points else 1]}")
    if isinstance(inputs, Tensor) and (inputs.ndim < 3 or min(inputs.shape[2:]) < 4):
        raise InputError(
            f"x has shape {tuple(inputs.shape)}: expected (batch, channels, *grid) with 4 points a side or more"
        )
    return inputs


@dataclass(frozen=True)
class _Look:
    """A few samples: errors of each, and their answers."""

    measured: Tensor
    fp32: Tensor
    answer_bound: Tensor | None
    convolutions: tuple[ConvolutionCertificate, ...]
    chosen: Tensor
    exact: Tensor


def _look(models: Versions, x: Part) -> _Look:
    chosen, exact, full = (observe(model, x) for model in (models.chosen, models.exact, models.full))
    convolutions, bound = certify_convolutions(models, chosen, exact)
    return _Look(
        measured=relative_errors(chosen.output, exact.output, x),
        fp32=relative_errors(full.output, exact.output, x),
        answer_bound=None if bound is None else ratio(bound, rms(exact.output)),
        convolutions=convolutions,
        chosen=chosen.output,
        exact=exact.output,
    )


def _test_errors(model: nn.Module, core: nn.Module, x: Any, looks: list[_Look], targets: Any) -> TestErrors:
    """Against the truth, in the units of the model that was given."""
    truth = targets if isinstance(targets, Tensor) else targets.values
    sizes = [len(look.exact) for look in looks]
    if sum(sizes) != len(truth):
        raise InputError(f"{len(truth)} rows of targets for {sum(sizes)} of answers: expected as many")
    found = []
    for name in ("exact", "chosen"):
        answer = torch.cat([getattr(look, name) for look in looks])
        answer = _dressed(model, core, x, answer)
        if answer.shape != truth.shape:
            raise InputError(f"targets have shape {tuple(truth.shape)}, the answers {tuple(answer.shape)}")
        rows = answer.split(sizes) if not isinstance(x, Tensor) else answer.split(1)
        truths = truth.to(answer.device).split([len(row) for row in rows])
        found.append(torch.cat([_one_error(a, t) for a, t in zip(rows, truths, strict=True)]))
    full, half = found
    change = change_of_error(half, full) if bool((half.isfinite() & full.isfinite()).all()) else None
    return TestErrors(full, half, change)


def _one_error(answer: Tensor, truth: Tensor) -> Tensor:
    return ratio(norms(answer.double() - truth.double(), {}), norms(truth, {}))


def _dressed(model: nn.Module, core: nn.Module, x: Any, answer: Tensor) -> Tensor:
    """What the wrapper around the operator makes of an answer."""
    if core is model:
        return answer
    with _answering(core, answer), torch.no_grad():
        dressed: Tensor = model(x)
    return dressed


@contextmanager
def _answering(core: nn.Module, answer: Tensor) -> Iterator[None]:
    """Within, the operator gives this answer to everything."""
    core.forward = lambda *_, **__: answer
    try:
        yield
    finally:
        del core.forward


def _stabilizer_change(models: Versions, x: Inputs, convolutions: tuple[ConvolutionCertificate, ...]) -> float:
    """The largest relative change of a float64 answer by the stabilizer; 0 without one."""
    if all(conv.stabilizer == "none" for conv in convolutions):
        return 0.0
    plain = run_as(models.exact, Policy.uniform("fp64", stabilizer="none"))
    first = next(parts(x))
    errors = relative_errors(observe(plain, first, []).output, observe(models.exact, first, []).output, first)
    return float(errors.max()) if len(errors) else math.nan
