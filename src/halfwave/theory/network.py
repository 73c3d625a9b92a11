"""Errors through several layers: v_{t+1} = sigma(S v_t + W v_t + b), each computed with rounding errors.

With E_t the error of the computed v_t (rms over the grid, l2 over channels), r2 and ||W|| the norms of both branches,
d what a layer adds by itself (evaluated at the computed input) and Lambda the Lipschitz constant of sigma,
    E_{t+1} <= Lambda ((r2 + ||W||) E_t + d_spectral + d_skip + d_sum) + d_activation.
Valid, and loose after several layers (15 to 300 times in our measurements), because errors are taken to align in every
layer. A measured difference belongs beside it, under that name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from halfwave.errors import InputError
from halfwave.numerics import Format
from halfwave.theory.bound import Bound, Number, all_known, outward_up, read_count, read_number, upper
from halfwave.theory.roundoff import (
    Accumulator,
    part_products,
    product_growth,
    read_accumulation,
    read_format,
    roundoff_in,
    roundoff_of,
)

# Largest |sigma'|, rounded up: GELU at x = sqrt2, SiLU at x = 2.3994.
ACTIVATIONS = {"identity": 1.0, "relu": 1.0, "tanh": 1.0, "gelu": 1.128905, "silu": 1.099840}


@dataclass(frozen=True)
class Layer:
    """One layer of a network, in plain numbers.

    Attributes:
        spectral_gain: r2, the largest spectral norm of R(w); 0 for a layer without spectral convolution.
        skip_gain: ||W||_2 of the pointwise branch; 0 without one, 1 for the identity.
        errors: what the layer adds before its activation: `bound_block`, `bound_pointwise`, `bound_rounding`, ...
        activation: a name in `ACTIVATIONS`, or a Lipschitz constant.
        rounding: what computing and storing the activation adds.
    """

    spectral_gain: Number
    skip_gain: Number
    errors: tuple[Number, ...]
    activation: str | float = "gelu"
    rounding: Number = 0.0


def bound_network(blocks: Sequence[Layer], *, input_error: Number = 0.0) -> Bound:
    """The error of the last layer's output; `input_error` is that of the first layer's input."""
    if not blocks:
        raise InputError("bound_network needs at least one layer, got none")
    errors = bound_layers(blocks, input_error=input_error)
    return errors[-1]


def bound_layers(blocks: Sequence[Layer], *, input_error: Number = 0.0) -> tuple[Bound, ...]:
    """The error after each layer."""
    error = read_number("input_error", input_error)
    known = all_known(input_error)
    bounds = []
    for index, layer in enumerate(blocks):
        error = outward_up(_advance(error, layer, index))
        known = known and all_known(layer.spectral_gain, layer.skip_gain, layer.errors, layer.rounding)
        assumptions = (f"{index + 1} layers, each with the gains and errors given", "errors may align in every layer")
        bounds.append(upper(error, "B2 (composition)", assumptions, known))
    return tuple(bounds)


def _advance(error: float, layer: Layer, index: int) -> float:
    gain = read_number(f"spectral_gain of layer {index}", layer.spectral_gain)
    gain += read_number(f"skip_gain of layer {index}", layer.skip_gain)
    added = sum(read_number(f"an error of layer {index}", item) for item in layer.errors)
    rounding = read_number(f"rounding of layer {index}", layer.rounding)
    return activation_constant(layer.activation) * (gain * error + added) + rounding


def activation_constant(activation: str | float) -> float:
    """Lambda of an activation."""
    if not isinstance(activation, str):
        return read_number("activation (a Lipschitz constant)", activation)
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise InputError(f"unknown activation {activation!r}: expected one of {known}, or a Lipschitz constant")
    return ACTIVATIONS[activation]


def bound_rounding(format: str | Format, *, norm: Number, channels: int) -> Bound:
    """Storing a field of (computed) rms norm `norm` in a format: u' norm + eta sqrt(channels)."""
    unit = roundoff_of(read_format(format))
    size = read_number("norm", norm)
    value = unit.relative * size + unit.absolute * math.sqrt(read_count("channels", channels))
    return upper(value, "B3 (one rounding)", (f"rms norm <= {size:.6g}", "no overflow"), all_known(norm))


def bound_pointwise(
    format: str | Format,
    *,
    in_channels: int,
    out_channels: int,
    w2: Number,
    wa: Number,
    norm: Number,
    bias: Number = 0.0,
    accumulate: Accumulator = "fp32",
) -> Bound:
    """The error of y = W v + b at every point in a format: input, weights and result rounded, sums accumulated.

    w2 = ||W||_2, wa = || |W| ||_2, norm = rms of v (l2 over channels), bias = ||b||_2. With N and e the input's norm
    and rounding error: ||W^ - W|| <= u' wa + eta sqrt(C O), sums C + 1 terms, then a cast.
    """
    target = read_format(format)
    unit = roundoff_of(target)
    inputs, outputs = read_count("in_channels", in_channels), read_count("out_channels", out_channels)
    size, spectral, moduli = read_number("norm", norm), read_number("w2", w2), read_number("wa", wa)
    shift = read_number("bias", bias)
    entered = unit.relative * size + unit.absolute * math.sqrt(inputs)
    seen = size + entered
    weights = unit.relative * moduli + unit.absolute * math.sqrt(inputs * outputs)
    # Products may be inexact in the accumulator (fp32 in fp32): one rounding more than the C additions.
    sums_in = read_accumulation(accumulate)
    growth, wide = product_growth(sums_in, inputs + 1, target).excess, roundoff_in(sums_in)
    shifting = unit.relative * shift + unit.absolute * math.sqrt(outputs)
    lost = part_products(target) * (inputs + 1) * wide.absolute * math.sqrt(outputs)
    sums = growth * ((moduli + weights) * seen + shift + shifting) + lost
    before = spectral * entered + weights * seen + shifting + sums
    value = before + unit.relative * (spectral * size + shift + before) + unit.absolute * math.sqrt(outputs)
    assumptions = (f"rms norm of the input <= {size:.6g}", f"sums in {sums_in}, any order", "no overflow")
    known = all_known(w2, wa, norm, bias) and sums_in.known
    return upper(value, f"B4 (pointwise layer in {target.name})", assumptions, known)
