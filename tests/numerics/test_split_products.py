"""bf16x2 and bf16x3: what the parts hold, what their products leave out, and that they are what is multiplied."""

import copy
from functools import partial

import pytest
import torch
from torch.nn import functional

import halfwave as hw
from halfwave.numerics import FORMATS, arithmetic_of, hardware, kept_products, round_to, split

BF16 = FORMATS["bf16"]
SPLITS = ("bf16x2", "bf16x3")
LEFT_OUT = {"bf16x2": 2.0**-16, "bf16x3": 2.0**-24 + 2.0**-34}


def numbers(count=100_000):
    """Of every size that fp32 has, and the hardest: nearly half way between two numbers of bf16."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.exp2(torch.randint(-149, 128, (count,), generator=generator).double())
    x = (sizes * (1 + torch.rand(count, generator=generator, dtype=torch.float64))).float()
    near = 1 + 2.0**-8 * (2 * torch.arange(1000) + 1) / 2 + 2.0**-23 * torch.arange(-500, 500)
    x = torch.cat([x, near.float()])
    return x[x.isfinite()]


@pytest.mark.parametrize("name", SPLITS)
def test_parts_are_bf16_and_hold_the_number(name):
    fmt, x = FORMATS[name], numbers()
    x = x[x <= fmt.largest]
    parts = split(x, fmt.parts)
    assert all(torch.equal(part, part.bfloat16().float()) for part in parts)
    total = sum(part.double() for part in parts)
    assert torch.equal(total, round_to(x, name).double())
    u = fmt.unit_roundoff
    assert ((total - x).abs() <= x.double() * u / (1 + u) + fmt.smallest_subnormal / 2).all()
    # Of a loaded number each part is at most what the theory takes it for.
    loaded = round_to(x, name).double()
    parts = [part.abs().double() for part in split(loaded.float(), fmt.parts)]
    for part, share in zip(parts[1:], (2.0**-8, 2.0**-17), strict=False):
        assert (part <= share * loaded).all()
    assert (sum(parts) <= (1 + 2.0**-7) * loaded).all()


def test_three_parts_are_fp32_above_its_smallest_numbers():
    x = numbers()
    x = x[(x >= FORMATS["bf16x3"].smallest_normal) & (x <= FORMATS["bf16x3"].largest)]
    assert torch.equal(round_to(x, "bf16x3"), x)


def test_numbers_of_p_bits_are_sums_of_parts():
    """What float64 is rounded to stays as it is in float32."""
    x = numbers().double() * (1 + 2.0**-30)
    for name in SPLITS:
        rounded = round_to(x[x < 3e38], name).float()
        assert torch.equal(round_to(rounded, name), rounded)


@pytest.mark.parametrize("name", SPLITS)
def test_the_ends_of_the_range(name):
    largest = FORMATS[name].largest
    x = torch.tensor([largest, -largest, 3.3962e38 * 1.0001, torch.inf, torch.nan, 2.0**-134, 1.5 * 2.0**-133])
    found = round_to(x, name)
    assert found[:2].tolist() == [largest, -largest]
    assert found[2:4].tolist() == [torch.inf, torch.inf]
    assert found[4].isnan()
    assert found[5:].tolist() == [0.0, 2.0**-132]


@pytest.mark.parametrize("name", SPLITS)
def test_products_leave_out_the_smallest(name):
    """Three of four and six of nine; what is missing is at most what the bound says, and comes near it."""
    fmt = FORMATS[name]
    a = round_to(1 + torch.rand(200_000, generator=torch.Generator().manual_seed(1)), name)
    # Both low parts as large as they can be against the number: just above 1, nearly half a spacing of bf16.
    a[0], b = 1 + 2.0**-8 - 2.0**-16, a.flip(0).clone()
    b[0] = a[0]
    kept = kept_products(a, b, fmt.parts)
    assert len(kept) == {2: 3, 3: 6}[fmt.parts]
    missing = (a.double() * b.double() - sum(x.double() * y.double() for x, y in kept)) / (a.double() * b.double())
    assert missing.abs().max() <= LEFT_OUT[name]
    if name == "bf16x2":
        assert missing[0] > 0.97 * LEFT_OUT[name]


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize(
    "product",
    [torch.mm, functional.linear, partial(torch.einsum, "ij,jk->ik"), lambda a, b: torch.bmm(a[None], b[None])[0]],
)
def test_every_bilinear_operator_is_taken_by_parts(name, product):
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(48, 48, generator=generator) for _ in range(2))
    arith = arithmetic_of(name, "cpu")
    a, b = arith.load(a), arith.load(b)
    expected = sum(product(x.double(), y.double()) for x, y in kept_products(a, b, arith.format.parts))
    found = arith.multiply(product, a, b)
    assert (found - expected).norm() < 5e-7 * expected.norm()
    if name == "bf16x2":  # not the product of the whole numbers
        assert (found - product(a.double(), b.double())).norm() > 3 * (found - expected).norm()


def test_gradients_pass_through_the_parts():
    a, b = (torch.randn(8, 8, dtype=torch.float32, requires_grad=True) for _ in range(2))
    arith = arithmetic_of("bf16x3", "cpu")
    arith.multiply(torch.mm, arith.load(a), arith.load(b)).sum().backward()
    torch.testing.assert_close(a.grad, (torch.ones(8, 8) @ b.t()).detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(b.grad, (a.t() @ torch.ones(8, 8)).detach(), rtol=1e-6, atol=1e-6)


def test_the_tiles_of_the_cpu_are_asked_for_and_given_back(monkeypatch):
    """Where the CPU has them, products of parts run with oneDNN allowed to take bf16, and nothing else does."""

    class Matmul:
        fp32_precision = "none"

    seen = []

    def product(a, b):
        seen.append(Matmul.fp32_precision)
        return a @ b

    monkeypatch.setattr(torch.backends.mkldnn, "matmul", Matmul, raising=False)
    monkeypatch.setattr(hardware, "_has_tiles", lambda: True)
    arithmetic_of("bf16x2", "cpu").multiply(product, torch.eye(2), torch.eye(2))
    arithmetic_of("fp32", "cpu").multiply(product, torch.eye(2), torch.eye(2))
    assert seen == ["bf16"] * 3 + ["none"]
    assert Matmul.fp32_precision == "none"


@pytest.mark.parametrize("name", SPLITS)
def test_a_model_says_how_it_multiplies_and_is_saved(name, tmp_path):
    policy = hw.Policy.named("mixed", dtype=name)
    model = hw.FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, precision=policy)
    assert f"contraction={name} (split)" in repr(model)
    x = torch.randn(2, 1, 8, 8)
    exact = copy.deepcopy(model).double()
    hw.set_precision(exact, hw.Policy.named("double"))
    with torch.no_grad():
        expected, found = exact(x.double()), model(x)
        hw.save(model, tmp_path / "model.safetensors")
        again = hw.load(tmp_path / "model.safetensors")
        assert torch.equal(again(x), found)
    assert 0 < (found - expected).norm() / expected.norm() < {"bf16x2": 1e-4, "bf16x3": 2e-6}[name]


def test_narrow_pieces_beside_it():
    """One role by parts, the others in fp32; weights in bf16 have one part that is not zero."""
    policy = hw.Policy(contraction="bf16x2", weights="bf16")
    conv = hw.SpectralConv(3, 3, (4, 4), precision=policy)
    x = torch.randn(1, 3, 8, 8)
    other = hw.SpectralConv(3, 3, (4, 4), precision=hw.Policy(weights="bf16"))
    other.load_state_dict(conv.state_dict())
    y, expected = conv(x), other(x)
    assert 0 < (y - expected).norm() / expected.norm() < 1e-5
