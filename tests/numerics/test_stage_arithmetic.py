"""Arithmetic: storing into a tensor is storing, loading into one is loading."""

import pytest
import torch

from halfwave.numerics import arithmetic_of

pytestmark = pytest.mark.hardware


@pytest.mark.parametrize("name", ["fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "bf16x2", "bf16x3"])
def test_store_into_is_store(name):
    arith = arithmetic_of(name, "cpu")
    x = torch.cat([torch.randn(1000) * 10.0**e for e in range(-8, 6)])
    out = torch.empty(2, len(x), dtype=arith.storage)
    arith.store_into(out[1], x)
    torch.testing.assert_close(out[1], arith.store(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "bf16x2", "bf16x3"])
@pytest.mark.parametrize("stored", [True, False])
def test_load_into_is_load_in_the_order_of_the_target(name, stored):
    arith = arithmetic_of(name, "cpu")
    x = torch.cat([torch.randn(1000) * 10.0**e for e in range(-8, 6)]).view(100, -1)
    x = arith.store(x) if stored else x
    out = torch.empty(x.shape[1], x.shape[0], dtype=arith.compute)
    assert arith.load_into(out, x.t()) is out
    torch.testing.assert_close(out, arith.load(x).t(), rtol=0, atol=0, equal_nan=True)
