"""The block bound against pipelines emulated bit for bit: every transform, format, size and scale."""

import math

import numpy as np
import pytest
from emulated_block import emulated_block, exact_block, frequencies, rms, rounded, weight_norms
from hypothesis import given, settings
from hypothesis import strategies as st
from property_search import search
from random_arithmetic import check_block

from halfwave.errors import InputError
from halfwave.numerics import FORMATS, get_format
from halfwave.theory import Estimate, Layer, Pipeline, bound_block, bound_network, bound_pointwise, bound_rounding
from halfwave.theory.dft_matrix import matrix_error, spectral_norm
from halfwave.theory.network import ACTIVATIONS, bound_layers
from halfwave.theory.roundoff import roundoff_of

SIZES = {"grid": (128, 128), "modes": (64, 64), "in_channels": 64, "out_channels": 64, "r2": 1, "ra": 1, "norm": 1}


def test_every_pipeline_stays_below_its_bound():
    """Three fields an example through gemm, cast and fft, in the normal and the underflow range."""
    assert search(check_block, 3, examples=300) >= 850


@pytest.mark.parametrize("transform", ["gemm", "cast", "fft"])
def test_tiny_fields_in_fp16_need_the_underflow_terms(transform):
    """Fields of 3e-8 are half lost to fp16; without the absolute terms (as in fp16 with bf16's range) no bound."""
    rng = np.random.default_rng(1)
    grid, modes = (16, 16), (8, 8)
    weights = rng.standard_normal((8, 5, 2, 2)) + 0j
    v = rng.standard_normal((2, *grid)) * 3e-8
    pipeline = Pipeline.uniform("fp16", transform)
    r2, ra = weight_norms(weights)
    observed = rms(emulated_block(v, weights, grid, modes, pipeline) - exact_block(v, weights, grid, modes))
    sizes = {"grid": grid, "modes": modes, "in_channels": 2, "out_channels": 2, "r2": r2, "ra": ra, "norm": rms(v)}
    assert observed <= float(bound_block(pipeline, **sizes))
    without = bound_block(Pipeline.uniform("tf32", transform), **sizes)  # fp16's precision, bf16's range
    assert observed > 5 * float(without)


def test_emulated_pipeline_in_fp64_is_the_exact_one():
    rng = np.random.default_rng(2)
    for grid, modes in [((9,), (4,)), ((8, 6), (5, 7)), ((4, 5, 6), (9, 3, 2))]:
        kept = [len(w) for w in frequencies(grid, modes)]
        weights = rng.standard_normal((*kept, 3, 2)) + 1j * rng.standard_normal((*kept, 3, 2))
        v = rng.standard_normal((2, *grid))
        exact = exact_block(v, weights, grid, modes)
        for transform in ("gemm", "cast"):
            computed = emulated_block(v, weights, grid, modes, Pipeline.uniform("fp64", transform))
            assert rms(computed - exact) < 1e-13 * rms(exact)


def test_exact_block_is_numpys_fft_with_weights():
    """All modes kept and identity weights: the field comes back; one weight of 2 doubles it."""
    v = np.random.default_rng(3).standard_normal((1, 6, 8))
    kept = [len(w) for w in frequencies((6, 8), (6, 8))]
    back = exact_block(v, np.full((*kept, 1, 1), 2.0 + 0j), (6, 8), (6, 8))
    assert np.allclose(back, 2 * v, atol=1e-14)


@pytest.mark.parametrize(
    ("transform", "format", "reached"),
    [("cast", "fp16", 0.0038), ("gemm", "fp16", 0.0057), ("fft", "fp16", 0.052), ("gemm", "bf16", 0.043)],
)
def test_figures_of_a_128x128_layer(transform, format, reached):
    """About 0.3% for casts, 0.5% for matrix products, 5% for a half FFT (THEORY.md section 5: 0.25%, 4.8%)."""
    bound = float(bound_block(Pipeline.uniform(format, transform), **SIZES))
    assert 0.9 * reached < bound < reached


def test_mixed_settings_lie_between_full_and_half():
    def of(*formats):
        return float(bound_block(Pipeline(*formats), **SIZES))

    full, half = of(*["fp32"] * 4), of(*["fp16"] * 4)
    for setting in ("HFF", "FHF", "FFH", "HHF", "FHH", "HFH"):
        forward, contraction, inverse = ("fp16" if letter == "H" else "fp32" for letter in setting)
        assert full < of(forward, contraction, inverse, contraction) < half


def test_fewer_casts_and_no_flushing_make_it_smaller():
    every = Pipeline.uniform("fp16")
    ends = Pipeline(cast_every_step=False)
    flushed = Pipeline(flush_to_zero=True)
    values = [float(bound_block(p, **SIZES)) for p in (ends, every, flushed)]
    assert values[0] < values[1] < values[2]


@pytest.mark.parametrize(("there", "back"), [("gemm", "cast"), ("cast", "gemm"), ("gemm", "fft"), ("fft", "cast")])
def test_another_transform_on_the_way_back(there, back):
    """A backend chosen for each format may differ between the two transforms."""
    rng = np.random.default_rng(6)
    grid, modes = (16, 8), (6, 5)
    kept = [len(w) for w in frequencies(grid, modes)]
    pipeline = Pipeline("bf16", "fp16", "fp16", "fp16", there, inverse_transform=back)
    for _ in range(20):
        weights = rng.standard_normal((*kept, 2, 3)) + 1j * rng.standard_normal((*kept, 2, 3))
        v = rng.standard_normal((3, *grid))
        r2, ra = weight_norms(weights)
        observed = rms(emulated_block(v, weights, grid, modes, pipeline) - exact_block(v, weights, grid, modes))
        sizes = {"grid": grid, "modes": modes, "in_channels": 3, "out_channels": 2, "r2": r2, "ra": ra, "norm": rms(v)}
        bound = float(bound_block(pipeline, **sizes))
        assert bound / 200 < observed <= bound
    with pytest.raises(InputError, match="unknown transform 'dct'"):
        Pipeline(inverse_transform="dct")


def test_flushing_costs_nothing_where_no_number_is_that_small():
    """bf16 has fp32's range: its flushed subnormals are below 1e-37, and no Fourier matrix has such an entry."""
    kept, flushed = (Pipeline("bf16", "bf16", "bf16", "bf16", flush_to_zero=flush) for flush in (False, True))
    plain = float(bound_block(kept, **SIZES))
    assert plain < float(bound_block(flushed, **SIZES | {"norm": 1 + 1e-12})) < plain * (1 + 1e-9)


def test_bias_and_output_grid_enter():
    plain = float(bound_block("fp16", **SIZES))
    assert plain < float(bound_block("fp16", **SIZES, bias=1.0)) < 2 * plain
    assert float(bound_block("fp16", **SIZES, output_grid=(256, 256))) == pytest.approx(plain, rel=0.05)


def test_an_estimated_norm_gives_an_estimate():
    sizes = SIZES | {"norm": Estimate(1.0, "one batch")}
    assert not bound_block("fp16", **sizes).guaranteed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ra": 0.5}, "ra must be at least r2"),
        ({"norm": -1}, "norm must be a number >= 0, got -1.0"),
        ({"modes": (64,)}, "need as many axes"),
        ({"grid": (0, 8)}, "grid must have at least one point"),
        ({"in_channels": 0}, "in_channels must be an integer >= 1, got 0"),
        ({"pipeline": "fp12"}, "unknown format 'fp12': expected one of fp64"),
        ({"pipeline": Pipeline(transform="fft"), "grid": (100, 128)}, "powers of two, got (100, 128"),
    ],
)
def test_nonsense_is_refused(change, said):
    call = {"pipeline": "fp16"} | SIZES | change
    with pytest.raises(InputError) as refusal:
        bound_block(call.pop("pipeline"), **call)
    assert said in str(refusal.value)


def test_pipelines_refuse_what_nothing_honours():
    with pytest.raises(InputError, match="unknown transform 'dct': expected one of gemm, cast, fft"):
        Pipeline(transform="dct")
    with pytest.raises(InputError, match="scale belongs to the transform 'fft'"):
        Pipeline(scale=2.0)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3"])
@pytest.mark.parametrize(("side", "kept"), [(8, 8), (17, 5), (64, 16), (100, 100)])
def test_matrix_error_covers_every_vector_and_beats_the_entrywise_bound(name, side, kept):
    format = get_format(name)
    unit = roundoff_of(format)
    w = np.arange(-(kept // 2), kept - kept // 2)
    exact = np.exp(-2j * np.pi * np.outer(w, np.arange(side)) / side)
    error = rounded(exact / side, format) * side - exact
    norm = np.linalg.norm(error, 2) / math.sqrt(side)
    found = matrix_error(side, kept, format, unit, (1.0, 1.0 / side))
    assert norm <= found
    assert found <= math.sqrt(min(side, kept + 3)) * unit.unit_error(1.0 / side) * (1 + 1e-9)


def test_spectral_norm_bounds_large_matrices_too():
    matrix = np.random.default_rng(4).standard_normal((350, 420)) + 0j
    exact = np.linalg.norm(matrix, 2)
    assert exact <= spectral_norm(matrix) <= 1.3 * exact
    assert exact <= spectral_norm(matrix.T) <= 1.3 * exact
    assert spectral_norm(np.zeros((3, 4), dtype=complex)) == 0.0


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["fp16", "bf16", "fp8_e5m2", "fp32"]),
    st.floats(-9, 1),
    st.integers(1, 40),
)
def test_pointwise_layers_stay_below_their_bound(seed, name, exponent, channels):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((channels, 20)) * 10.0**exponent
    w, b = rng.standard_normal((5, channels)), rng.standard_normal((5, 1)) * 10.0**exponent
    wide = rounded(w, name).astype(np.float32) @ rounded(v, name).astype(np.float32) + rounded(b, name).astype(
        np.float32
    )
    observed = rms(rounded(wide.astype(np.float64), name) - (w @ v + b))
    w2, wa = weight_norms(w)
    sizes = {"in_channels": channels, "out_channels": 5, "w2": w2, "wa": wa, "norm": rms(v)}
    assert observed <= float(bound_pointwise(name, **sizes, bias=float(np.linalg.norm(b))))


def test_composition_on_a_rounded_network():
    """Four layers sigma(S v + W v), S and W computed in fp16 on a grid: the whole chain below the composed bound."""
    rng = np.random.default_rng(5)
    grid, modes, c = (8, 8), (4, 4), 3
    kept = [len(w) for w in frequencies(grid, modes)]
    pipeline = Pipeline.uniform("fp16")
    exact = computed = rng.standard_normal((c, *grid))
    layers, errors = [], []
    for _ in range(4):
        weights = (rng.standard_normal((*kept, c, c)) + 1j * rng.standard_normal((*kept, c, c))) / 4
        skip = rng.standard_normal((c, c)) / 3
        r2, ra = weight_norms(weights)
        w2, wa = weight_norms(skip)
        sizes = {"grid": grid, "modes": modes, "in_channels": c, "out_channels": c}
        spectral = bound_block(pipeline, **sizes, r2=r2, ra=ra, norm=rms(computed))
        branch = bound_pointwise("fp16", in_channels=c, out_channels=c, w2=w2, wa=wa, norm=rms(computed))
        a = emulated_block(computed, weights, grid, modes, pipeline)
        b = np.tensordot(rounded(skip, "fp16").astype("f"), rounded(computed, "fp16").astype("f"), axes=1)
        total = a + rounded(b.astype(float), "fp16")
        summed = bound_rounding("fp16", norm=rms(total), channels=c)
        exact = np.tanh(exact_block(exact, weights, grid, modes) + np.tensordot(skip, exact, axes=1))
        smooth = np.tanh(rounded(total, "fp16"))
        stored = bound_rounding("fp16", norm=rms(smooth), channels=c)
        computed = rounded(smooth, "fp16")
        layers.append(Layer(r2, w2, (spectral, branch, summed), "tanh", stored))
        errors.append(rms(computed - exact))
    bounds = bound_layers(layers)
    assert all(error <= float(bound) for error, bound in zip(errors, bounds, strict=True))
    assert float(bound_network(layers)) == float(bounds[-1])
    assert errors[-1] > float(bounds[-1]) / 1000


def test_activation_constants_are_upper_bounds_of_the_slope():
    from scipy.special import erf

    x = np.linspace(-8, 8, 400_001)
    gelu = 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    sigmoid = 1 / (1 + np.exp(-x))
    silu = sigmoid * (1 + x * (1 - sigmoid))
    for name, slope in (("gelu", gelu), ("silu", silu)):
        assert slope.max() <= ACTIVATIONS[name] < slope.max() + 2e-5


def test_networks_refuse_nonsense_and_carry_estimates():
    with pytest.raises(InputError, match="at least one layer"):
        bound_network([])
    with pytest.raises(InputError, match="unknown activation 'swash'"):
        bound_network([Layer(1, 0, (0.1,), "swash")])
    with pytest.raises(InputError, match="skip_gain of layer 0 must be a number >= 0"):
        bound_network([Layer(1, -1, (0.1,))])
    assert not bound_network([Layer(1, 0, (Estimate(0.1, "seen"),))]).guaranteed
    assert float(bound_network([Layer(2, 1, (0.1,), 1.0, 0.5)], input_error=1.0)) == pytest.approx(3.6)


def test_every_format_has_a_block_bound():
    values = {name: float(bound_block(name, **SIZES)) for name in FORMATS}
    assert all(math.isfinite(value) for value in values.values())
    assert values["fp32"] < values["bf16x3"] < 1.1 * values["fp32"] < values["bf16x2"] < values["tf32"] / 4
    assert values["fp64"] < 1e-11 < values["fp32"] < values["tf32"] < values["bf16"] < values["fp8_e5m2"]
