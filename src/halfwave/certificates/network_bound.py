"""The accumulated bound: rounding errors of a whole FNO, layer by layer, at the values that it really computed.

Two errors are followed. `total` is against the float64 model from the start. `local` is against float64 arithmetic from
the computed input of the present fused step: the norm of a computed value is at most that of the float64 one + local.
Valid, and loose after a few layers: errors are taken to align everywhere (docs/theory.md, "A network").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
from torch import Tensor, nn

from halfwave.certificates.norms import largest_rms, matrix_norms, vector_norm
from halfwave.certificates.observing import Observation
from halfwave.models import NONLINEARITIES, ChannelMLP, FNOBlock, GridEmbedding, GridOperator, Skip
from halfwave.numerics import Arithmetic, accumulation, multiplied_in
from halfwave.spectral import FourierTransform
from halfwave.theory import Bound, Layer, bound_network, bound_pointwise, bound_rounding

GELU_ULPS = 8
"""An assumption: a library's gelu is off by at most 8 units of its own format's roundoff, relative to its argument."""

# Nonlinearities with a Lipschitz constant of which the same is assumed; others are not 0 at 0, or are not known.
_COVERED = ("gelu", "relu", "silu", "tanh")

# Products below 1e-37 that bf16 instructions flush: far above channels times 2^-126 for any layer that fits a machine.
_FLUSHED = 1e-30


@dataclass(frozen=True)
class Value:
    """A field on its way: the float64 value from the computed input of this step, and the two errors."""

    exact: Tensor
    local: float
    total: float

    @property
    def computed_norm(self) -> float:
        return largest_rms(self.exact) + self.local


@dataclass(frozen=True)
class ConvolutionErrors:
    """What the composition needs to know of a block's spectral convolution.

    Attributes:
        gain: r2 times the Lipschitz constant of the stabilizer.
        errors: what it adds at its computed input: its own bound, and the stabilizer's rounding through r2.
    """

    gain: float
    errors: tuple[Bound | float, ...]


def is_plain_chain(model: nn.Module) -> TypeGuard[GridOperator]:
    """Whether the way between the blocks is an FNO's, which is the one that the composition knows."""
    if not isinstance(model, GridOperator) or type(model).forward is not GridOperator.forward:
        return False
    return isinstance(model.transform, FourierTransform)


def covers(layer: nn.Module) -> bool:
    """Whether the composition knows this layer: an MLP or a plain block, with a nonlinearity that it covers."""
    if isinstance(layer, FNOBlock):
        return layer.plain and layer.settings.non_linearity in _COVERED
    return isinstance(layer, ChannelMLP) and layer.non_linearity in _COVERED


def coordinate_error(model: GridOperator) -> float | None:
    """The rounding of the positional channels, in fp32 under every policy; None where it is not known."""
    embedding = model.positional_embedding
    if embedding is None:
        return 0.0
    if not isinstance(embedding, GridEmbedding):
        return None
    if embedding.grid_boundaries is None:
        # i/n < 1 is a quotient of integers, rounded once: half a unit of [1/2, 1).
        return 2.0**-25 * math.sqrt(model.n_dim)
    # Quotient, product and sum round, each a number of at most this size.
    sizes = [max(abs(start), abs(end), abs(end - start)) for start, end in embedding.grid_boundaries]
    return 3 * 2.0**-24 * math.hypot(*sizes)


def bound_lifting(model: GridOperator, seen: Observation, coordinates: float) -> float:
    """The error of the lifted field; `coordinates` is that of the positional channels."""
    return bound_mlp(model.lifting, seen.inputs["lifting"], coordinates)


def bound_projection(model: GridOperator, seen: Observation, error: float) -> float:
    """The error of the model's answer from that of the last block's output."""
    return bound_mlp(model.projection, seen.inputs["projection"], error)


def bound_mlp(mlp: ChannelMLP, x: Tensor, error: float) -> float:
    """The error of an MLP's answer at its computed input `x`, which has `error` already."""
    start = Value(x.double(), 0.0, error)
    return _mlp(start, mlp, _arithmetic(mlp, start.exact)).total


def bound_block_output(block: FNOBlock, name: str, seen: Observation, error: float, conv: ConvolutionErrors) -> float:
    """E_{t+1} of a block from E_t: σ(MLP(σ(K v + W v)) + g v), each step rounded in the pointwise format."""
    x, y = seen.inputs[name].double(), seen.outputs[f"{name}.conv"].double()
    arith = _arithmetic(block, x)
    entered = Value(x, 0.0, error)
    convolved = Value(y, 0.0, _advance(error, Layer(conv.gain, 0.0, conv.errors, "identity")))
    # The convolution's answer is in its own format: loading it rounds, and storing the block's answer does.
    value = _add_skip(_rounded(convolved, arith), entered, block.skip, arith)
    sigma = block.settings.non_linearity
    if block.activate:
        value = _activated(value, sigma, arith)
    if block.mlp is not None:
        value = _add_skip(_mlp(value, block.mlp, arith), entered, block.mlp_skip, arith)
    return (_activated(value, sigma, arith) if block.activate else _rounded(value, arith)).total


def _arithmetic(module: FNOBlock | ChannelMLP, x: Tensor) -> Arithmetic:
    return module.arithmetic(x.device)


def _mlp(value: Value, mlp: ChannelMLP, arith: Arithmetic) -> Value:
    parameters = mlp.parameter_list()
    first, *others = zip(parameters[::2], parameters[1::2], strict=True)
    value = _linear(value, *first, arith)
    for weight, bias in others:
        value = _linear(_activated(value, mlp.non_linearity, arith), weight, bias, arith)
    return value


def _linear(value: Value, weight: Tensor, bias: Tensor | None, arith: Arithmetic) -> Value:
    wide = weight.detach().double()
    w2, wa = matrix_norms(wide)
    exact = torch.einsum("oc,bc...->bo...", wide, value.exact)
    if bias is not None:
        exact = exact + bias.detach().double().view(-1, *[1] * (exact.ndim - 2))
    product = bound_pointwise(
        multiplied_in(arith, value.exact.device),
        in_channels=wide.shape[1],
        out_channels=wide.shape[0],
        w2=w2,
        wa=wa,
        norm=value.computed_norm,
        bias=vector_norm(bias),
        accumulate=accumulation(arith, value.exact.device),
    )
    step = _moved(value, exact, Layer(0.0, w2, (product, _FLUSHED), "identity"))
    # A native product is rounded before the bias is added, and the sum again.
    return _rounded(step, arith) if bias is not None else step


def _add_skip(value: Value, entered: Value, skip: Skip, arith: Arithmetic) -> Value:
    if skip.kind is None:
        return value
    if skip.kind == "identity":
        branch = entered
    elif skip.kind == "linear":
        branch = _linear(entered, skip.weight, None, arith)
    else:
        branch = _linear(entered, torch.diag(skip.weight.detach()), None, arith)
    total = Value(value.exact + branch.exact, value.local + branch.local, value.total + branch.total)
    return _rounded(total, arith)


def _activated(value: Value, name: str, arith: Arithmetic) -> Value:
    exact = NONLINEARITIES[name].function(value.exact)
    unit = 2.0**-53 if _wide(arith) == "fp64" else 2.0**-24
    evaluation = GELU_ULPS * unit * value.computed_norm
    return _rounded(_moved(value, exact, Layer(0.0, 1.0, (), name, evaluation)), arith)


def _rounded(value: Value, arith: Arithmetic) -> Value:
    """Rounded to the format; a wide step rounds later, which costs no more."""
    rounding = bound_rounding(arith.format, norm=value.computed_norm, channels=value.exact.shape[1])
    return replace(value, local=value.local + float(rounding), total=value.total + float(rounding))


def _moved(value: Value, exact: Tensor, layer: Layer) -> Value:
    return Value(exact, _advance(value.local, layer), _advance(value.total, layer))


def _advance(error: float, layer: Layer) -> float:
    return float(bound_network([layer], input_error=error)) if math.isfinite(error) else math.inf


def _wide(arith: Arithmetic) -> str:
    return "fp64" if arith.format.name == "fp64" else "fp32"
