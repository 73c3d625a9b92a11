"""Formats against torch.finfo, and round_to against torch's own casts, bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halfwave.numerics import FORMATS, Format, get_format, round_to

HELD_BY_TORCH = ["fp64", "fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"]


@pytest.mark.parametrize("name", HELD_BY_TORCH)
def test_constants_are_torch_finfo(name):
    fmt = FORMATS[name]
    info = torch.finfo(fmt.dtype)
    assert fmt.unit_roundoff == info.eps / 2
    assert fmt.smallest_normal == info.smallest_normal
    assert fmt.smallest_subnormal == info.smallest_normal * info.eps
    assert fmt.largest == info.max


def test_tf32_is_fp32_range_with_eleven_bits():
    tf32 = FORMATS["tf32"]
    assert tf32.unit_roundoff == 2.0**-11
    assert tf32.smallest_subnormal == 2.0**-136
    assert tf32.largest == pytest.approx(3.4e38, rel=1e-2)


def _bits_sweep() -> torch.Tensor:
    """Float32 numbers of every exponent, with mantissas on, beside and between the ties of every format."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (400_000,), generator=generator, dtype=torch.int64)
    ties = torch.arange(0, 2**15, dtype=torch.int64) << 16
    offsets = torch.tensor([0, 1, 2**12, 2**12 + 1, 2**15, 2**15 - 1, 2**15 + 1, 2**19, 2**20, 2**20 + 1])
    near = (ties[:, None] + offsets).flatten()
    return torch.cat([bits, near, near | (1 << 31)]).to(torch.int32).view(torch.float32)


def _torch_cast(x: torch.Tensor, name: str) -> torch.Tensor:
    """Torch's cast and back; where torch saturates fp8_e4m3 (2.13 does, 2.6 gave NaN), NaN."""
    back = x.to(FORMATS[name].dtype).to(torch.float32)
    return torch.where(x.abs() > 464, torch.nan, back) if name == "fp8_e4m3" else back


@pytest.mark.parametrize("name", HELD_BY_TORCH[1:])
def test_equals_torch_cast_bit_for_bit(name):
    x = _bits_sweep()
    ours = round_to(x, name)
    theirs = _torch_cast(x, name)
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours.nan_to_num(nan=0.0).view(torch.int32), theirs.nan_to_num(nan=0.0).view(torch.int32))


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e4m3", "fp8_e5m2"])
def test_rounding_by_hand_equals_torch_cast(name):
    """The float64 route, which does not use torch's cast, agrees on numbers that float32 holds."""
    x = _bits_sweep()
    by_hand = round_to(x.double(), name)
    theirs = _torch_cast(x, name).double()
    assert torch.equal(by_hand.nan_to_num(nan=0.5), theirs.nan_to_num(nan=0.5))


def test_float64_is_rounded_once():
    """1 + 2^-8 + 2^-40 is above the tie: through float32 it would land on it and go to even, downwards."""
    x = torch.tensor([1 + 2.0**-8 + 2.0**-40], dtype=torch.float64)
    assert round_to(x, "bf16").item() == 1 + 2.0**-7
    assert x.float().bfloat16().item() == 1.0


def test_overflow_is_each_formats_own():
    assert round_to(torch.tensor([65519.0, 65520.0, -1e6]), "fp16").tolist() == [
        65504.0,
        torch.inf,
        -torch.inf,
    ]
    assert round_to(torch.tensor([464.0]), "fp8_e4m3").item() == 448.0
    assert round_to(torch.tensor([470.0]), "fp8_e4m3").isnan().all()
    assert round_to(torch.tensor([1e6]), "fp8_e5m2").item() == torch.inf
    assert round_to(torch.tensor([3.4028e38]), "tf32").item() == torch.inf
    assert round_to(torch.tensor([torch.nan]), "tf32").isnan().all()


def test_gradual_underflow():
    assert round_to(torch.tensor([2.0**-25]), "fp16").item() == 0.0  # tie to even
    assert round_to(torch.tensor([1.1 * 2.0**-25]), "fp16").item() == 2.0**-24
    assert round_to(torch.tensor([2.0**-136, 2.0**-138]), "tf32").tolist() == [2.0**-136, 0.0]


@given(st.floats(width=64, allow_nan=False, allow_infinity=False), st.sampled_from(sorted(FORMATS)))
def test_error_is_within_the_model(value, name):
    """|q(x) - x| <= u/(1+u) |x| + smin/2, and q is idempotent."""
    fmt = FORMATS[name]
    x = torch.tensor([value], dtype=torch.float64)
    q = round_to(x, name)
    assert torch.equal(round_to(q, name).nan_to_num(), q.nan_to_num())
    if abs(value) <= fmt.largest:
        u = fmt.unit_roundoff
        assert abs(q.item() - value) <= abs(value) * u / (1 + u) * (1 + 1e-12) + fmt.smallest_subnormal / 2


def test_gradient_passes_straight_through():
    x = torch.tensor([0.3, -7.7, 1e-9], requires_grad=True)
    (round_to(x, "fp8_e5m2") * torch.tensor([2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["tf32", "bf16", "fp8_e4m3", "bf16x2", "bf16x3"])
def test_rounding_is_compiled_without_a_break(name):
    """Formats that exist only as rounding: the same numbers, and the same gradient, in one graph."""
    x = torch.randn(64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = torch.compile(lambda x: round_to(x, name) * 3, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(found, round_to(x, name) * 3)
    found.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 3.0))


def test_the_compiler_does_not_take_rounding_away():
    """Its pass that takes fp32 to bf16 and back for nothing would leave numbers as they are, and parts no rest."""
    x = torch.cat([torch.randn(1000) * 10.0**e for e in (-40, -20, 0, 20, 38)])
    x = torch.cat([x, torch.tensor([torch.inf, -torch.inf, torch.nan, 3.3962e38, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 0.0])])
    for name in ("bf16", "bf16x2"):
        found = torch.compile(lambda x, name=name: round_to(x, name))(x)
        torch.testing.assert_close(found, round_to(x, name), rtol=0, atol=0, equal_nan=True)


def test_bad_names_and_integers_raise():
    with pytest.raises(ValueError, match=r"unknown format 'fp12': expected one of .*bf16"):
        get_format("fp12")
    with pytest.raises(ValueError, match="floating-point"):
        round_to(torch.tensor([1]), "fp16")


def test_a_clipped_format_holds_its_largest_number_instead_of_infinity():
    clipped = Format("fp8_e5m2_made_up", 3, -14, 57344.0, "clip", None)
    x = torch.tensor([1e6, -torch.inf, 1.1, 57345.0, 3e-5])
    found = round_to(x, clipped)
    assert found[:2].tolist() == [57344.0, -57344.0]
    assert torch.equal(found[2:], round_to(x[2:].clamp(-57344.0, 57344.0), "fp8_e5m2"))
