"""The engine against its guarantee: measured error of a spectral convolution never exceeds the bound of the theory."""

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from halfwave.precision import Policy
from halfwave.spectral import SpectralConv
from halfwave.theory import Pipeline, bound_block

pytestmark = pytest.mark.hardware

SIDES = st.integers(min_value=1, max_value=24)


@st.composite
def cases(draw):
    dim = draw(st.integers(1, 3))
    side = SIDES if dim < 3 else st.integers(1, 9)
    return {
        "grid": tuple(draw(side) for _ in range(dim)),
        "modes": tuple(draw(st.integers(1, 12)) for _ in range(dim)),
        "channels": (draw(st.integers(1, 9)), draw(st.integers(1, 9))),
        "scale": 2.0 ** draw(st.integers(-20, 12)),
        "weight_scale": 2.0 ** draw(st.integers(-8, 4)),
        "setting": draw(st.sampled_from(["HHH", "HHF", "HFH", "FHH", "FHF", "HFF", "FFH"])),
        "dtype": draw(st.sampled_from(["fp16", "bf16"])),
        "backend": draw(st.sampled_from(["gemm", "fft"])),
        "seed": draw(st.integers(0, 2**31)),
    }


@given(cases())
@settings(max_examples=300, deadline=None)
def test_measured_error_is_below_the_bound(case):
    torch.manual_seed(case["seed"])
    policy = Policy.block(case["setting"], dtype=case["dtype"], stabilizer="none")
    conv = SpectralConv(*case["channels"], case["modes"], backend=case["backend"], precision=policy)
    with torch.no_grad():
        conv.weight.weight.mul_(case["weight_scale"])
        conv.bias.mul_(case["scale"])
        x = torch.randn(1, case["channels"][0], *case["grid"]) * case["scale"]
        computed = conv(x).double()
        exact = copy.deepcopy(conv).double()
        exact.set_precision(Policy.uniform("fp64"))
        error = _norm(computed - exact(x.double()))
    assume(bool(computed.isfinite().all()))  # the bound presumes that nothing overflows
    assert error <= float(_bound(conv, policy, case, _norm(x.double()))), case


def _bound(conv, policy, case, norm):
    weight = conv.weight.dense().to(torch.complex128).flatten(2).permute(2, 0, 1)
    pipeline = Pipeline(
        forward=policy.forward_transform,
        contraction=policy.contraction,
        inverse=policy.inverse_transform,
        weights=policy.weights,
        transform="gemm" if case["backend"] == "gemm" else "cast",
    )
    return bound_block(
        pipeline,
        grid=case["grid"],
        modes=case["modes"],
        in_channels=case["channels"][0],
        out_channels=case["channels"][1],
        r2=torch.linalg.matrix_norm(weight, 2).max().item(),
        ra=torch.linalg.matrix_norm(weight.abs(), 2).max().item() * (1 + 1e-12),
        norm=norm,
        bias=conv.bias.double().norm().item(),
    )


def _norm(field):
    """rms over the grid, l2 over channels."""
    return field.square().sum(1).mean().sqrt().item()
