"""A few slices stand for all: the plan is that of every slice, to the byte, and takes a fraction of the operators."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

import halfwave as hw
from halfwave.measure import LiveBytes
from halfwave.models import pointwise
from halfwave.numerics import few_slices, on_threads, unlike
from halfwave.planner import Roofline, get_device, memory, plan_cost, plan_memory

# Slices of whole samples with a smaller last one; parts of samples with a rest; the same for a U-Net's decoder.
SHAPES = {"whole samples": (7, 1, 8, 10), "parts of samples": (3, 1, 29, 31)}
MODELS: dict[str, Any] = {
    "FNO": lambda: hw.FNO((6, 6), 1, 1, 20, n_layers=1),
    "UNet": lambda: hw.UNet(1, 1, 8, 2),
}


@pytest.fixture(autouse=True)
def many_slices(monkeypatch):
    """Small fields are cut as large ones are."""
    monkeypatch.setattr(pointwise, "WHOLE_ELEMENTS", 0)
    monkeypatch.setattr(pointwise, "SLICE_ELEMENTS", 20 * 220)
    monkeypatch.setattr(pointwise, "SMALL_SLICE_ELEMENTS", 20 * 220)
    monkeypatch.setattr(pointwise, "PIECE_POINTS", 64)


@pytest.mark.parametrize(
    ("policy", "threads", "recompute"), [("full", 1, False), ("half", 2, False), ("half", 1, True)]
)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_the_plan_is_the_same_to_the_byte(model, shape, policy, threads, recompute, monkeypatch):
    made = MODELS[model]()

    def plan():
        with on_threads(threads):
            return plan_memory(made, shape, policy=policy, recompute=recompute, device="cpu")

    few = plan()
    monkeypatch.setattr(memory, "few_slices", nullcontext)
    assert few == plan()


def test_it_takes_fewer_operators_where_slices_are_many(monkeypatch):
    calls = []
    monkeypatch.setattr(LiveBytes, "__torch_dispatch__", _counted(LiveBytes.__torch_dispatch__, calls))
    model = MODELS["FNO"]()
    plan_memory(model, (16, 1, 29, 31), policy="full", device="cpu")
    few = len(calls)
    monkeypatch.setattr(memory, "few_slices", nullcontext)
    plan_memory(model, (16, 1, 29, 31), policy="full", device="cpu")
    assert few < (len(calls) - few) / 2


def _counted(dispatch, calls):
    def counting(self, func, types, args=(), kwargs=None):
        calls.append(func)
        return dispatch(self, func, types, args, kwargs)

    return counting


def test_work_is_counted_in_every_slice():
    model, clock = MODELS["FNO"](), Roofline(get_device("v100"))
    few, many = (plan_cost(model, (n, 1, 29, 31), clock, policy="full", device="cpu").flops for n in (4, 8))
    assert many == pytest.approx(2 * few, rel=0.01)


def test_every_turn_from_a_shape_to_a_shape_is_taken_twice():
    field = torch.empty(1, 3, 27, device="meta")
    parts = [*field.split(5, dim=2), *field.split(5, dim=2)]
    assert len(unlike(parts)) == len(parts) == 12
    with few_slices():
        assert [part.shape[2] for part in unlike(parts)] == [5, 5, 5, 2, 5, 2]
        assert len(unlike([torch.empty(1, 3, 5)] * 9)) == 9, "numbers are never left out"
        assert unlike([]) == []
