"""Operations, bytes and time of a step: against counts by hand and against torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import halfwave as hw
from halfwave.errors import InputError
from halfwave.planner import DEVICES, Roofline, Stopwatch, get_device, plan_cost
from halfwave.planner.op_costs import OpCosts


def test_flops_are_those_of_torchs_counter() -> None:
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=2, backend="gemm")
    x = torch.randn(2, 1, 24, 24)
    plan = plan_cost(model, x, Roofline(get_device("v100")), policy="full", device="cpu")
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    assert plan.flops == counter.get_total_flops()


def test_bytes_of_one_operator() -> None:
    with OpCosts(lambda: ("forward", "")) as costs:
        a = torch.empty(4, 8, device="meta")
        (a.t() + 1).t().view(-1)
    found = {op.name: op for _, op, _ in costs.calls()}
    assert found["aten.add"].nbytes == 2 * 4 * 8 * 4
    assert found["aten.t"].nbytes == found["aten.view"].nbytes == 0
    assert found["aten.empty"].nbytes == 0


def test_expanded_operands_are_read_once() -> None:
    with OpCosts(lambda: ("forward", "")) as costs:
        torch.empty(1, 8, device="meta").expand(100, 8) + 1
    added = next(op for _, op, _ in costs.calls() if op.name == "aten.add")
    assert added.nbytes == 4 * (8 + 800)


def test_the_parts_add_up_by_module() -> None:
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=2)
    plan = plan_cost(model, (2, 1, 24, 24), Roofline(get_device("rtx-4090")), policy="mixed", device="cuda")
    names = {cost.module for cost in plan.modules}
    assert {"lifting", "blocks.0.conv", "blocks.1", "projection"} <= names
    assert plan.seconds == pytest.approx(sum(cost.seconds for cost in plan.modules))
    assert plan.to_dict()["flops"] == plan.flops > 0
    assert "GFLOP" in str(plan)


def test_roofline_is_the_slower_of_products_and_traffic() -> None:
    device = get_device("a100-40gb")
    with OpCosts(lambda: ("forward", "")) as costs:
        for dtype in (torch.float32, torch.float16):
            torch.empty(4096, 4096, device="meta", dtype=dtype) @ torch.empty(4096, 4096, device="meta", dtype=dtype)
        torch.empty(1 << 20, device="meta") + 1
    full, half = (op for _, op, _ in costs.calls() if op.name == "aten.mm")
    add = next(op for _, op, _ in costs.calls() if op.name == "aten.add")
    clock = Roofline(device)
    assert clock.seconds(full) == pytest.approx(2 * 4096**3 / 19.5e12 + device.overhead)
    assert clock.seconds(half) == pytest.approx(2 * 4096**3 / 312e12 + device.overhead)
    assert clock.seconds(add) == pytest.approx(2 * (4 << 20) / 1555e9 + device.overhead)


def test_mixed_is_predicted_to_be_faster_on_tensor_cores() -> None:
    with torch.device("meta"):
        model = hw.FNO((64, 64), 1, 1, 64, n_layers=2)
    clock = Roofline(get_device("a100-40gb"))
    full, mixed = (
        plan_cost(model, (8, 1, 128, 128), clock, policy=p, device="cuda").seconds for p in ("full", "mixed")
    )
    assert mixed < 0.8 * full


def test_a_stopwatch_times_every_operator_of_a_step() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, 1, 1))
    clock = Stopwatch()
    plan = plan_cost(model, (2, 1, 16, 16), clock, device="cpu")
    assert all(cost.seconds > 0 for cost in plan.modules)
    assert clock.bytes_per_second > 1e7


def test_devices_have_sources_and_plausible_rates() -> None:
    assert {"a100-40gb", "a100-80gb", "v100", "h100-sxm", "h100-pcie", "rtx-3090", "rtx-4090", "l4", "t4"} <= set(
        DEVICES
    )
    for device in DEVICES.values():
        assert device.source
        assert device.fp32 <= device.half
        assert device.kind in ("cpu", "cuda")


def test_a_device_that_is_not_in_the_table() -> None:
    with pytest.raises(InputError, match=r"unknown device 'h300': expected one of v100"):
        get_device("h300")
