"""certify: measured errors of a model under a precision policy, beside the bounds that no rounding can exceed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from halfwave.certificates.certificate import BlockCertificate, Certificate
from halfwave.certificates.conv_bound import bound_conv, pipeline_of, underflow_over_rounding, weight_norms
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
from halfwave.certificates.observing import (
    Runs,
    conv_of,
    core_of,
    fno_blocks,
    observe,
    refuse_points,
    refuse_scaling,
    run_as,
)
from halfwave.certificates.remarks import concerns, notes
from halfwave.errors import InputError
from halfwave.models import FNOBlock
from halfwave.precision import Policy, as_policy, get_stabilizer
from halfwave.spectral import SpectralConv
from halfwave.theory import Bound

# What a stabilizer multiplies differences by, at most; divide-S is read from its name. The others look at the whole
# sample (mean and deviation), and no constant bounds them.
_LIPSCHITZ = {"none": 1.0, "tanh": 1.0, "hard-clip": 1.0}


def certify(model: nn.Module, x: Tensor, policy: str | Policy) -> Certificate:
    """Run `model` on `x` in float64, in fp32 and under `policy`, and compare.

    Args:
        model: an FNO, anything with FNO blocks, or a wrapper around one (then the errors are those of the operator
            inside, in its own units). It is copied, not changed.
        x: inputs (B, C, *grid) with at least 4 points a side: a few samples are enough.
        policy: a `Policy` or the name of one.

    A stabilizer changes the function; the float64 and fp32 runs have the same one, so that errors are of rounding
    alone, and what it changes is reported apart.
    """
    chosen = as_policy(policy)
    _check_model(model)
    refuse_scaling(model)
    _check_input(x)
    core, inputs = core_of(model, x.detach().float())
    runs = _run(core, inputs, chosen)
    error = _lifting_error(runs)
    blocks = []
    for name in fno_blocks(runs.model):
        block = _certify_block(name, runs, error)
        error = block.output_bound
        blocks.append(block)
    return _conclude(chosen, inputs, runs, tuple(blocks), error)


def _check_model(model: nn.Module) -> None:
    refuse_points(model, "certify")
    if not fno_blocks(model):
        raise InputError(f"{type(model).__name__} has no FNO block: certify needs an FNO or a model made of its blocks")


def _check_input(x: Tensor) -> None:
    if x.ndim < 3 or min(x.shape[2:]) < 4 or not len(x):
        raise InputError(
            f"x has shape {tuple(x.shape)}: expected (batch, channels, *grid) with 4 points a side or more"
        )
    if not bool(x.isfinite().all()):
        raise InputError("x holds inf or nan: there is nothing to certify")


def _run(model: nn.Module, x: Tensor, policy: Policy) -> Runs:
    under = run_as(model, policy)
    seen = observe(under, x)
    stabilizers = {f"{name}.conv": conv_of(under, name).stabilizer for name in fno_blocks(under)}
    exact_model = run_as(model, Policy.uniform("fp64"), stabilizers)
    full = run_as(model, Policy.named("full"), stabilizers).float()
    return Runs(
        model=under,
        exact_model=exact_model,
        chosen=seen,
        exact=observe(exact_model, x),
        full=observe(full, x),
        half_grid=observe(exact_model, every_second(x)),
    )


def every_second(field: Tensor) -> Tensor:
    """(B, C, *grid) at the points with even indices."""
    return field[(slice(None), slice(None), *[slice(None, None, 2)] * (field.ndim - 2))]


def _certify_block(name: str, runs: Runs, entered: float | None) -> BlockCertificate:
    """One block; `entered` is the accumulated bound of its input."""
    block = runs.model.get_submodule(name)
    assert isinstance(block, FNOBlock)
    conv, exact_conv = block.conv, conv_of(runs.exact_model, name)
    x, y = runs.chosen.inputs[f"{name}.conv"], runs.chosen.outputs[f"{name}.conv"]
    grid = tuple(x.shape[2:])
    stabilizer = conv.stabilizer
    v = get_stabilizer(stabilizer)(x)
    norm = largest_rms(v)
    norms = weight_norms(conv, grid)
    reference = _without_stabilizer(exact_conv, v)
    finite = bool(y.isfinite().all()) and bool(runs.chosen.outputs[name].isfinite().all()) and math.isfinite(norm)
    bound = bound_conv(conv, grid, x.device, norm, norms) if finite else None
    output_bound = None
    if entered is not None and bound is not None:
        output_bound = _accumulate(name, block, runs, entered, bound, stabilizer, norms[0])
    exact = runs.exact.outputs[name]
    return BlockCertificate(
        name=name,
        pipeline=str(pipeline_of(conv, grid, x.device)),
        stabilizer=stabilizer,
        input_norm=norm,
        input_peak=float(v.double().abs().max()),
        r2=norms[0],
        ra=norms[1],
        conv_norm=largest_rms(reference),
        conv_error=largest_rms(y.double() - reference),
        conv_bound=bound,
        output_norm=largest_rms(exact),
        output_error=largest_rms(runs.chosen.outputs[name].double() - exact),
        output_error_fp32=largest_rms(runs.full.outputs[name].double() - exact),
        output_bound=output_bound,
        discretization=_difference_on_common_points(exact, runs.half_grid.outputs[name]),
        underflow=underflow_over_rounding(exact_conv, conv, v.double()),
        finite=finite,
    )


@torch.no_grad()
def _without_stabilizer(conv: SpectralConv, v: Tensor) -> Tensor:
    """The float64 convolution on an input that is stabilised already."""
    policy = conv.policy
    conv.set_precision(policy.with_(stabilizer="none"))
    try:
        result: Tensor = conv(v.double())
    finally:
        conv.set_precision(policy)
    return result


def _difference_on_common_points(fine: Tensor, coarse: Tensor) -> float | None:
    """None where padding moved the points of the coarse grid away from those of the fine one."""
    common = every_second(fine)
    return largest_rms(common - coarse) if common.shape == coarse.shape else None


def _lifting_error(runs: Runs) -> float | None:
    """Only of an FNO is the way between blocks known, and only of blocks of plain form the way through them."""
    model = runs.model
    if not is_plain_chain(model) or not bool(runs.chosen.output.isfinite().all()):
        return None
    coordinates = coordinate_error(model)
    known = all(covers(layer) for layer in (model.lifting, model.projection, *model.blocks))
    return bound_lifting(model, runs.chosen, coordinates) if known and coordinates is not None else None


def _accumulate(
    name: str, block: FNOBlock, runs: Runs, entered: float, bound: Bound, stabilizer: str, r2: float
) -> float | None:
    lipschitz = _lipschitz(stabilizer)
    if lipschitz is None:
        return None
    x = runs.chosen.inputs[f"{name}.conv"]
    function = get_stabilizer(stabilizer)
    own = largest_rms(function(x).double() - function(x.double()))
    return bound_block_output(block, name, runs.chosen, entered, ConvolutionErrors(r2 * lipschitz, (bound, r2 * own)))


def _lipschitz(stabilizer: str) -> float | None:
    if stabilizer.startswith("divide-"):
        return 1.0 / float(stabilizer.removeprefix("divide-"))
    return _LIPSCHITZ.get(stabilizer)


def _conclude(
    policy: Policy, x: Tensor, runs: Runs, blocks: tuple[BlockCertificate, ...], error: float | None
) -> Certificate:
    exact, coarse = runs.exact.output, every_second(runs.exact.output)
    precision = rms(runs.chosen.output.double() - exact)
    discretization = rms(coarse - runs.half_grid.output)
    bound = _answer_bound(runs, error)
    return Certificate(
        policy=policy,
        grid=tuple(x.shape[2:]),
        half_grid=tuple(runs.half_grid.output.shape[2:]),
        samples=len(x),
        blocks=blocks,
        output_norm=largest_rms(exact),
        precision_error=float(precision.max()),
        fp32_error=largest_rms(runs.full.output.double() - exact),
        output_bound=bound,
        discretization_error=float(discretization.max()),
        samples_below=int((precision < discretization).sum()),
        stabilizer_change=_stabilizer_change(x, runs, blocks),
        concerns=concerns(runs, blocks),
        notes=notes(runs, blocks, tuple(x.shape[2:]), bound),
    )


def _answer_bound(runs: Runs, error: float | None) -> float | None:
    if error is None or not is_plain_chain(runs.model):
        return None
    last = list(fno_blocks(runs.model))[-1]
    padded = math.prod(runs.chosen.outputs[last].shape[2:]) / math.prod(runs.chosen.output.shape[2:])
    # An error over the padded grid may sit in the part that is kept.
    return bound_projection(runs.model, runs.chosen, error * math.sqrt(padded))


def _stabilizer_change(x: Tensor, runs: Runs, blocks: tuple[BlockCertificate, ...]) -> float:
    if all(block.stabilizer == "none" for block in blocks):
        return 0.0
    plain = run_as(runs.exact_model, Policy.uniform("fp64", stabilizer="none"))
    return largest_rms(observe(plain, x).output - runs.exact.output)
