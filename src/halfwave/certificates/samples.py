"""Samples: what a certificate runs a model on, one by one, whatever the model is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.observing import run_as
from halfwave.errors import InputError
from halfwave.models import trial_run
from halfwave.precision import Policy, as_policy
from halfwave.spectral import SpectralConv

Sample = Tensor | Sequence[Any] | Mapping[str, Any]
"""What a model is called with for one sample: its input, its arguments, or its keyword arguments."""
Samples = Tensor | Sequence[Sample]
"""A batch (N, ...) of inputs, or samples one by one (a GINO's, say), each a batch of one."""


def each_sample(x: Samples) -> Iterator[Sample]:
    """The samples one by one; InputError for fields that hold inf or nan."""
    if not isinstance(x, Tensor):
        return iter(x)
    if not bool(x.isfinite().all()):
        raise InputError("x holds inf or nan: there is nothing to certify")
    return (x[n : n + 1] for n in range(len(x)))


def call(model: nn.Module, sample: Sample, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The model's answer to a sample whose real numbers are changed beforehand."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Tensor) and value.is_floating_point() else value

    if isinstance(sample, Tensor):
        answer = model(changed(sample))
    elif isinstance(sample, Mapping):
        answer = model(**{key: changed(value) for key, value in sample.items()})
    else:
        answer = model(*(changed(value) for value in sample))
    if not isinstance(answer, Tensor):
        raise InputError(f"the model answered with a {type(answer).__name__}: a certificate needs one tensor")
    return answer


@torch.no_grad()
def measure_error(model: nn.Module, x: Samples, policy: str | Policy) -> Tensor:
    """||f_policy(x) - f(x)|| / ||f(x)|| of each sample (N,), float64, f in float64 with the same stabilizers."""
    under = run_as(model, as_policy(policy))
    stabilizers = {name: m.stabilizer for name, m in under.named_modules() if isinstance(m, SpectralConv)}
    exact = run_as(model, Policy.uniform("fp64"), stabilizers).double()
    with torch.compiler.set_stance("force_eager"), trial_run(under), trial_run(exact):
        pairs = [(call(under, sample, Tensor.float), call(exact, sample, Tensor.double)) for sample in each_sample(x)]
    return torch.stack([(a.double() - b).norm() / b.norm() for a, b in pairs])
