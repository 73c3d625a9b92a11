"""The largest batch: it fits, the next does not."""

from __future__ import annotations

import pytest

import halfwave as hw
from halfwave.errors import InputError
from halfwave.planner import largest_batch, plan_memory
from halfwave.planner.largest_batch import search
from halfwave.planner.sizes import format_bytes, parse_bytes
from halfwave.planner.workload import recipe_workload


@pytest.mark.parametrize("policy", ["full", "mixed"])
def test_it_fits_and_the_next_does_not(policy: str) -> None:
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=2)
    memory = 700 << 20
    batch = largest_batch(model, memory, policy, sample=(1, 32, 32), device="cuda")
    fits, next_one = (
        plan_memory(model, (b, 1, 32, 32), policy=policy, device="cuda").needed_bytes for b in (batch, batch + 1)
    )
    assert fits <= memory < next_one


def test_none_where_one_sample_is_too_large() -> None:
    assert largest_batch("darcy", "600MiB", "full", grid=512, device="cuda") == 0


def test_a_recipe_and_its_work_agree() -> None:
    work = recipe_workload("demo", 32)
    asked = {"memory": "530MiB", "policy": "mixed", "device": "cuda"}
    assert largest_batch("demo", grid=32, **asked) == largest_batch(work, **asked)


def test_the_papers_navier_stokes_model_gains_what_the_paper_says() -> None:
    work = recipe_workload("navier-stokes-paper")
    full, mixed = (
        plan_memory(work.model, work.inputs(8), policy=p, device="cuda").peak_bytes for p in ("full", "mixed")
    )
    assert mixed <= 0.55 * full
    batches = [largest_batch(work, "24GiB", policy, device="cuda") for policy in ("full", "mixed")]
    assert batches[1] >= 1.7 * batches[0]


@pytest.mark.parametrize("limit", [99, 100, 101, 5000, 12_345, 10**6])
@pytest.mark.parametrize(
    "needed",
    [
        lambda b: 50 + 10 * b,
        lambda b: 40 + 10 * b + (b // 7) * 3,
        lambda b: 50 + b * b,
        lambda b: 50 + 10 * b + 400 * (b > 30),
        lambda b: 90 + max(0, b - 20),
    ],
)
def test_search_is_exact(needed: object, limit: int) -> None:
    assert callable(needed)
    found = search(needed, limit)
    assert needed(found) <= limit or found == 0
    assert needed(found + 1) > limit


@pytest.mark.parametrize(
    ("text", "nbytes"), [("24GiB", 24 << 30), ("1.5 GB", 1_500_000_000), ("512", 512), ("10mib", 10 << 20), (7, 7)]
)
def test_sizes(text: str | int, nbytes: int) -> None:
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["24 parsecs", "GiB", "-3GiB", "0", "24GiBs", ""])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(InputError, match=r"unit|size|nothing"):
        parse_bytes(text)


def test_sizes_are_printed_in_three_digits() -> None:
    assert [format_bytes(n) for n in (3, 1536, 24 << 30, 700 << 20)] == ["3 B", "1.5 KiB", "24 GiB", "700 MiB"]


def test_what_has_no_shape_is_refused() -> None:
    with pytest.raises(InputError, match="sample="):
        largest_batch(hw.FNO((8, 8), 1, 1, 8), "1GiB")
    with pytest.raises(InputError, match="unknown recipe 'nonsense'"):
        largest_batch("nonsense", "1GiB")
