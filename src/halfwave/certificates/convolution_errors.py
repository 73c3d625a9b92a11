"""The convolutions of a model on a few samples: each one's error by itself, its bound, and the bound carried along."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halfwave.certificates.answers import ratio
from halfwave.certificates.conv_bound import bound_conv, pipeline_of, underflow_over_rounding, weight_norms
from halfwave.certificates.convolution_certificate import ConvolutionCertificate
from halfwave.certificates.network_bound import (
    ConvolutionErrors,
    bound_block_output,
    bound_lifting,
    bound_projection,
    coordinate_error,
    covers,
    is_plain_chain,
)
from halfwave.certificates.norms import largest_rms, rms
from halfwave.certificates.observing import Observation, Versions, conv_of, fno_blocks
from halfwave.models import FNOBlock
from halfwave.precision import get_stabilizer
from halfwave.spectral import FourierTransform, SpectralConv
from halfwave.theory import Bound

# What a stabilizer multiplies differences by, at most; divide-S is read from its name. The others look at the whole
# sample (mean and deviation), and no constant bounds them.
_LIPSCHITZ = {"none": 1.0, "tanh": 1.0, "hard-clip": 1.0}


@dataclass(frozen=True)
class Carried:
    """What is known of each sample's error on its way through the model, in absolute terms; None where nothing is."""

    bounds: tuple[float, ...] | None


def certify_convolutions(
    models: Versions, chosen: Observation, exact: Observation
) -> tuple[tuple[ConvolutionCertificate, ...], Tensor | None]:
    """Of each block, and the composed bound (N,) of the answer in absolute rms; None where there is none."""
    carried = _after_lifting(models.chosen, chosen)
    found = []
    for name in fno_blocks(models.chosen):
        convolution, carried = _certify(name, models, chosen, exact, carried)
        found.append(convolution)
    return tuple(found), _of_answer(models.chosen, chosen, carried)


def _certify(
    name: str, models: Versions, chosen: Observation, exact: Observation, entered: Carried
) -> tuple[ConvolutionCertificate, Carried]:
    block = models.chosen.get_submodule(name)
    assert isinstance(block, FNOBlock)
    conv, exact_conv = block.conv, conv_of(models.exact, name)
    x, y = chosen.inputs[f"{name}.conv"], chosen.outputs[f"{name}.conv"]
    grid = tuple(x.shape[2:])
    v = get_stabilizer(conv.stabilizer)(x)
    reference = _without_stabilizer(exact_conv, v, tuple(y.shape[2:]))
    norms = weight_norms(conv, grid)
    finite = all(bool(value.isfinite().all()) for value in (v, y, chosen.outputs[name]))
    bounds = _bounds(conv, v, norms) if finite and tuple(y.shape[2:]) == grid else None
    left = Carried(_carry(name, block, chosen, entered, bounds, norms[0]) if bounds is not None else None)
    answer, output = exact.outputs[name], chosen.outputs[name].double()
    certificate = ConvolutionCertificate(
        name=name,
        pipeline=_pipeline(conv, grid, x.device),
        stabilizer=conv.stabilizer,
        measured=ratio(rms(y.double() - reference), rms(reference)),
        guaranteed=None if bounds is None else ratio(_tensor(list(map(float, bounds))), rms(reference)),
        bound=None if bounds is None else max(bounds, key=float),
        output_error=ratio(rms(output - answer), rms(answer)),
        output_bound=None if left.bounds is None else ratio(_tensor(left.bounds), rms(answer)),
        grid=grid,
        input_peak=float(v.double().abs().max()),
        r2=norms[0],
        ra=norms[1],
        underflow=underflow_over_rounding(exact_conv, conv, v.double()),
        finite=finite,
    )
    return certificate, left


def _bounds(conv: SpectralConv, v: Tensor, norms: tuple[float, float]) -> list[Bound] | None:
    """One for each sample, at the norm that its input has."""
    if not isinstance(conv.transform, FourierTransform):
        return None
    found = [bound_conv(conv, tuple(v.shape[2:]), v.device, float(norm), norms) for norm in rms(v)]
    known = [bound for bound in found if bound is not None]
    return known if len(known) == len(found) else None


def _pipeline(conv: SpectralConv, grid: tuple[int, ...], device: torch.device) -> str:
    if isinstance(conv.transform, FourierTransform):
        return str(pipeline_of(conv, grid, device))
    return str(conv.transform.plan(grid, conv.resolved(device).forward_transform, device))


@torch.no_grad()
def _without_stabilizer(conv: SpectralConv, v: Tensor, grid: tuple[int, ...]) -> Tensor:
    """The float64 convolution on an input that is stabilised already."""
    policy = conv.policy
    conv.set_precision(policy.with_(stabilizer="none"))
    try:
        result: Tensor = conv(v.double(), grid)
    finally:
        conv.set_precision(policy)
    return result


def _after_lifting(model: nn.Module, seen: Observation) -> Carried:
    """Only of an FNO is the way between blocks known, and only of blocks of plain form the way through them."""
    if not is_plain_chain(model) or not bool(seen.output.isfinite().all()):
        return Carried(None)
    coordinates = coordinate_error(model)
    known = all(covers(layer) for layer in (model.lifting, model.projection, *model.blocks))
    if not known or coordinates is None:
        return Carried(None)
    return Carried(tuple(bound_lifting(model, seen.sample(n), coordinates) for n in range(len(seen.output))))


def _carry(
    name: str, block: FNOBlock, seen: Observation, entered: Carried, bounds: list[Bound], r2: float
) -> tuple[float, ...] | None:
    lipschitz = _lipschitz(block.conv.stabilizer)
    if lipschitz is None or entered.bounds is None:
        return None
    function = get_stabilizer(block.conv.stabilizer)
    found = []
    for n, (error, bound) in enumerate(zip(entered.bounds, bounds, strict=True)):
        sample = seen.sample(n)
        x = sample.inputs[f"{name}.conv"]
        own = largest_rms(function(x).double() - function(x.double()))
        conv = ConvolutionErrors(r2 * lipschitz, (bound, r2 * own))
        found.append(bound_block_output(block, name, sample, error, conv))
    return tuple(found)


def _lipschitz(stabilizer: str) -> float | None:
    if stabilizer.startswith("divide-"):
        return 1.0 / float(stabilizer.removeprefix("divide-"))
    return _LIPSCHITZ.get(stabilizer)


def _of_answer(model: nn.Module, seen: Observation, carried: Carried) -> Tensor | None:
    if carried.bounds is None or not is_plain_chain(model):
        return None
    last = list(fno_blocks(model))[-1]
    padded = math.prod(seen.outputs[last].shape[2:]) / math.prod(seen.output.shape[2:])
    # An error over the padded grid may sit in the part that is kept.
    errors = [error * math.sqrt(padded) for error in carried.bounds]
    return _tensor([bound_projection(model, seen.sample(n), error) for n, error in enumerate(errors)])


def _tensor(values: list[float] | tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
