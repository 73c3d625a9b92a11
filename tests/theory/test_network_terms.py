"""Each term of the bounds of pointwise layers, roundings and their composition: data that reach at least half of it."""

import math

import numpy as np
import pytest
from adversary import reaches, worst_sum
from emulated_block import rounded

from halfwave.numerics import FORMATS, Accumulation
from halfwave.theory import Layer, bound_network, bound_pointwise, bound_rounding
from halfwave.theory.roundoff import roundoff_of

FP8, FP16 = roundoff_of(FORMATS["fp8_e4m3"]), roundoff_of(FORMATS["fp16"])
TIE, HALF = 1 + 2.0**-4, FP8.absolute


def layer(v, w, b=0.0, name="fp8_e4m3"):
    """One channel at one point: w v + b with everything rounded, sums in fp32."""
    parts = [float(rounded(np.array([x]), name)[0]) for x in (v, w, b)]
    wide = np.float32(parts[0]) * np.float32(parts[1]) + np.float32(parts[2])
    return abs(float(rounded(np.array([float(wide)]), name)[0]) - (v * w + b))


def bound(v, w, b=0.0, name="fp8_e4m3", **options):
    return bound_pointwise(name, in_channels=1, out_channels=1, w2=w, wa=w, norm=v, bias=b, **options)


@pytest.mark.parametrize(
    ("v", "w", "b", "term"),
    [
        (TIE, 1.0, 0.0, FP8.relative * TIE),
        (HALF, 1.0, 0.0, HALF),
        (1.0, TIE, 0.0, FP8.relative * TIE),
        (1.0, HALF, 0.0, HALF),
        (0.0, 0.0, TIE, FP8.relative * TIE),
        (0.0, 0.0, HALF, HALF),
        (1.0, 1.0, 2.0**-4, FP8.relative * TIE),
        (2.0**-5, 2.0**-5, 0.0, HALF),
    ],
    ids=["input", "input lost", "weight", "weight lost", "bias", "bias lost", "result", "result lost"],
)
def test_roundings_of_a_pointwise_layer(v, w, b, term):
    reaches(layer(v, w, b), term, bound(v, w, b))


def test_an_input_error_is_multiplied_by_the_weights():
    """The tie times 8."""
    reaches(layer(TIE, 8.0), 8 * FP8.relative * TIE, bound(TIE, 8.0))
    assert layer(TIE, 8.0) > 0.9 * 8 * FP8.relative * TIE


def test_sums_of_a_pointwise_layer():
    """63 channels and a bias after one that is as large as all: each sum too large by a coarse unit."""
    unit, c = 2.0**-10, 64
    x = np.array([1.0, *[1e-9] * (c - 1), 0.0])
    sums = Accumulation(FORMATS["fp32"], unit, nearest=False)
    found = bound_pointwise("fp32", in_channels=c, out_channels=1, w2=1.0, wa=1.0, norm=1.0, accumulate=sums)
    reaches(worst_sum(x * np.array([*x[:-1], 1.0]), unit) - x @ x, (c + 1) * unit, found)


def test_underflow_in_the_sums_of_a_pointwise_layer():
    """64 products of one and a half smallest numbers in an fp16 accumulator."""
    unit, c = 2 * FP16.absolute, 64
    products = rounded(np.full(c, 2.0**-5 * 48 * unit), "fp16")
    sizes = {"in_channels": c, "out_channels": 1, "w2": 2.0**-5 * 8, "wa": 2.0**-5 * 8, "norm": 48 * unit * 8}
    found = bound_pointwise("fp16", **sizes, accumulate="fp16")
    reaches(products.sum() - c * 1.5 * unit, c * FP16.absolute, found)
    assert products.sum() - c * 1.5 * unit > 0.3 * float(found)


@pytest.mark.parametrize("value", [TIE, HALF])
def test_one_rounding(value):
    lost = abs(float(rounded(np.array([value]), "fp8_e4m3")[0]) - value)
    found = bound_rounding("fp8_e4m3", norm=value, channels=1)
    reaches(lost, found, found)
    assert lost > 0.9 * (FP8.relative * value if value > 0.1 else FP8.absolute)


def test_composition_is_attained_by_numbers():
    """Layers y = Lambda (r v + w v + added) + rounding of one number, all errors of one sign: equality."""
    layers = [Layer(1.5, 0.5, (0.1, 0.2), 1.1, 0.01), Layer(0.0, 1.0, (), 2.0, 0.0)]
    error = 0.07
    for one in layers:
        error = one.activation * ((one.spectral_gain + one.skip_gain) * error + sum(one.errors)) + one.rounding
    found = float(bound_network(layers, input_error=0.07))
    assert error <= found <= error * (1 + 1e-11)


def test_unknown_sums_make_an_estimate():
    unknown = Accumulation(FORMATS["fp32"], 2.0**-22, nearest=False, source="a device", known=False)
    assert bound(1.0, 1.0).guaranteed
    assert not bound(1.0, 1.0, accumulate=unknown).guaranteed
    assert math.isfinite(float(bound(1.0, 1.0, accumulate=unknown)))
