"""What sums run in: the CPU's measured, every other device's by what torch and the literature say."""

import numpy as np
import pytest
import torch

from halfwave.numerics import (
    FORMATS,
    Accumulation,
    Arithmetic,
    accumulation,
    arithmetic_of,
    cpu_multiplies,
    multiplied_in,
    weakest,
)


def native(name):
    return Arithmetic(FORMATS[name], FORMATS[name].storage)


@pytest.mark.parametrize("name", ["fp64", "fp32", "bf16", "fp16"])
def test_products_of_this_cpu_add_up_as_said(name):
    """1 and many numbers that an accumulator of the format loses, in kernels of several shapes: the result is no
    further from the truth than is said, and what is left of the small ones shows that it is not the format."""
    dtype, found = FORMATS[name].dtype, accumulation(native(name), "cpu")
    assert found.known
    assert found.format.name == ("fp64" if name == "fp64" else "fp32")
    u = 2.0 ** -FORMATS[name].precision
    for rows, terms, columns in [(1, 257, 1), (3, 512, 5), (64, 1000, 64)]:
        left = torch.full((rows, terms), u, dtype=torch.float64)
        left[:, 0] = 1.0
        product = (left.to(dtype) @ torch.ones(terms, columns, dtype=dtype)).double()
        exact = 1.0 + (terms - 1) * u
        stored = FORMATS[name].unit_roundoff * exact
        assert float((product - exact).abs().max()) <= terms * found.unit * exact + stored
        if FORMATS[name].half:
            assert float(product.min()) > 1.0 + 0.9 * (terms - 1) * u - stored


def test_the_error_of_a_cpus_sums_is_below_its_model():
    """Random data with cancellation: |error| <= T u sum |a||b|, and a half format's last rounding."""
    rng = np.random.default_rng(0)
    for name in ("fp32", "bf16", "fp16"):
        dtype = FORMATS[name].dtype
        a = torch.from_numpy(rng.standard_normal((32, 400))).to(dtype)
        b = torch.from_numpy(rng.standard_normal((400, 32))).to(dtype)
        exact = a.double() @ b.double()
        bound = 400 * accumulation(native(name), "cpu").unit * (a.double().abs() @ b.double().abs())
        stored = 0.0 if name == "fp32" else FORMATS[name].unit_roundoff * (exact.abs() + bound)
        assert bool(((a @ b).double() - exact).abs().le(bound + stored).all())


def test_bf16_instructions_flush():
    with cpu_multiplies("bf16"):
        assert accumulation(arithmetic_of("bf16", "cpu"), "cpu").flushes
    with cpu_multiplies():
        assert not accumulation(arithmetic_of("bf16", "cpu"), "cpu").flushes


def test_fp32_that_is_not_fp32():
    """`set_float32_matmul_precision` lets a CPU multiply fp32 in bf16: then nobody vouches."""
    assert accumulation(arithmetic_of("fp32", "cpu"), "cpu").known
    torch.set_float32_matmul_precision("medium")
    try:
        found = accumulation(arithmetic_of("fp32", "cpu"), "cpu")
    finally:
        torch.set_float32_matmul_precision("highest")
    assert not found.known
    assert "not known" in str(found)


def test_other_machines_are_not_known(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert accumulation(native("fp32"), "cpu").known
    for name in ("bf16", "fp16"):
        assert not accumulation(native(name), "cpu").known
    assert not accumulation(native("fp32"), "mps").known


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_switches_of_torch(name):
    """By default torch may round partial sums to the format on CUDA; without that it is the tensor cores' own way."""
    switch = f"allow_{name}_reduced_precision_reduction"
    matmul = torch.backends.cuda.matmul
    assert getattr(matmul, switch)
    found = accumulation(native(name), "cuda")
    assert not found.known
    assert switch in found.source
    setattr(matmul, switch, False)
    try:
        off = accumulation(native(name), "cuda")
    finally:
        setattr(matmul, switch, True)
    assert "tensor cores" in off.source
    assert not off.nearest
    assert off.known == (torch.cuda.is_available() and "experiment" in off.source)


def test_measured_tensor_cores_are_known(monkeypatch):
    monkeypatch.setattr("halfwave.numerics.accumulators._tensor_cores", lambda device: "A100")
    monkeypatch.setattr(
        "torch.backends.cuda.matmul",
        type("Switches", (), {"allow_fp16_reduced_precision_reduction": False, "allow_tf32": False})(),
    )
    found = accumulation(native("fp16"), "cuda")
    assert found.known
    assert "A100" in found.source


def test_tensor_cores_cut_off():
    """Blocks of four products, aligned to the largest and cut off after 24 bits: emulated, 1.3 units of 2^-23 a product
    are lost, and the unit covers them."""
    unit = accumulation(native("fp16"), "cuda").unit
    total, terms = 1.0, 256
    small = 2.0**-23 - 2.0**-40
    for _ in range(terms // 4):
        # Each of four products below the last bit of the accumulator is cut off to nothing.
        total = np.floor(total * 2**23) / 2**23 + 4 * np.floor(small * 2**23) / 2**23
    exact = 1.0 + terms * small
    assert 0.2 * terms * unit < exact - total <= (1 + unit) ** terms - 1
    assert exact - total > (1 + 2.0**-24) ** terms - 1


def test_fp16_accumulation_and_tf32():
    matmul = torch.backends.cuda.matmul
    matmul.allow_fp16_accumulation, matmul.allow_tf32 = True, True
    try:
        found = accumulation(native("fp16"), "cuda")
        assert multiplied_in(arithmetic_of("fp32", "cuda"), "cuda").name == "tf32"
        assert multiplied_in(arithmetic_of("fp8_e4m3", "cuda"), "cuda").name == "fp8_e4m3"
        assert not accumulation(arithmetic_of("fp32", "cuda"), "cuda").nearest
    finally:
        matmul.allow_fp16_accumulation, matmul.allow_tf32 = False, False
    assert found.format.name == "fp16"
    assert not found.known
    assert multiplied_in(arithmetic_of("fp32", "cuda"), "cuda").name == "fp32"
    assert accumulation(arithmetic_of("fp32", "cuda"), "cuda").nearest
    assert multiplied_in(arithmetic_of("fp32", "cpu"), "cpu").name == "fp32"


def test_the_weakest_of_several():
    first = Accumulation.to_nearest(FORMATS["fp32"], "one")
    second = Accumulation(FORMATS["fp16"], 2.0**-10, nearest=False, flushes=True, source="two", known=False)
    both = weakest([first, second])
    assert (both.format.name, both.unit) == ("fp16", 2.0**-10)
    assert (both.nearest, both.flushes, both.known) == (False, True, False)
    assert both.source == "one; two"
    assert weakest([first, first]) == first
