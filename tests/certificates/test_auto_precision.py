"""auto_precision: budgets against measured errors, against exhaustive search, and what is done with a plan."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import product
from typing import Any

import h5py
import pytest
import torch
from torch import Tensor, nn

import halfwave as hw
from halfwave.certificates import PrecisionPlan, auto_precision, measure_error, sensitivities
from halfwave.certificates.finite_sample import tolerance_bound
from halfwave.certificates.gradient_error import measure_gradient_error
from halfwave.certificates.knapsack import Knapsack
from halfwave.certificates.samples import Measured
from halfwave.data import Normalizer
from halfwave.errors import InputError
from halfwave.numerics import cpu_multiplies
from halfwave.precision import Policy
from halfwave.training import Operator


def smooth(count: int, side: int = 16, seed: int = 1) -> Tensor:
    """Random fields (count, 1, side, side) with a falling spectrum, each of deviation 1."""
    drawn = torch.randn(count, 1, side, side, generator=torch.Generator().manual_seed(seed))
    k = torch.fft.fftfreq(side, 1 / side)[:, None].square() + torch.fft.rfftfreq(side, 1 / side).square()
    field = torch.fft.irfft2(torch.fft.rfft2(drawn) / (1 + k), s=(side, side))
    return field / field.std((1, 2, 3), keepdim=True)


def target(x: Tensor) -> Tensor:
    return torch.roll(x, 2, -1) + 0.3 * x.square()


def taught(model: nn.Module, steps: int = 40) -> nn.Module:
    optimizer, x = torch.optim.Adam(model.parameters(), 4e-3), smooth(8)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) - target(x)).square().mean().backward()
        optimizer.step()
    return model.eval()


def planned(model: nn.Module, data: Any, **options: Any) -> PrecisionPlan:
    """A plan from few samples."""
    return auto_precision(model, data, **{"samples": 3, "held_out": 6, "probes": 2, **options})


@pytest.fixture(scope="module", autouse=True)
def _no_native_half():
    with cpu_multiplies():
        yield


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return taught(hw.FNO((8, 8), 1, 1, 8, n_layers=2))


@pytest.fixture(scope="module")
def fresh() -> Tensor:
    """Samples that no plan has seen."""
    return smooth(16, seed=7)


@pytest.mark.parametrize("budget", [1.5e-3, 4e-3])
@pytest.mark.parametrize("formats", [("fp16", "bf16"), ("bf16",)])
def test_a_budget_is_met_on_fresh_samples(model, fresh, budget: float, formats: tuple[str, ...]) -> None:
    plan = planned(model, smooth(10), max_error=budget, formats=formats)
    assert plan.met
    errors = measure_error(model, fresh, plan.policy)
    assert float((errors <= budget).double().mean()) >= 0.9
    if plan.bytes < plan.full_bytes:
        assert 0.5 < plan.predicted_error / plan.measured_error < 2


def test_larger_budgets_cost_less(model) -> None:
    plans = [planned(model, smooth(10), max_error=e, formats=("bf16",)) for e in (1e-5, 3e-3, 0.1)]
    sizes = [plan.bytes for plan in plans]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == plans[0].full_bytes
    assert sizes[-1] == pytest.approx(plans[0].full_bytes / 2, rel=1e-3)
    assert len(set(sizes)) == 3


@pytest.fixture(scope="module")
def every_plan() -> tuple[nn.Module, dict[tuple[str, ...], float]]:
    """A small model, and what each choice of bf16 and fp32 for its stages is measured to do to held-out samples."""
    torch.manual_seed(0)
    small = taught(hw.FNO((8, 8), 1, 1, 8, n_layers=1), 25)
    stages = [(c.layer, c.stage) for c in planned(small, smooth(10), max_error=1.0, held_out=8).choices]
    truth = Measured(small, list(smooth(10)[3:, None]), Policy(stabilizer="none"))
    return small, {
        names: tolerance_bound(truth.error(_policy(dict(zip(stages, names, strict=True)))))
        for names in product(("bf16", "fp32"), repeat=len(stages))
    }


@pytest.mark.parametrize("budget", [7e-4, 1e-3, 1.5e-3, 2.2e-3, 3e-3, 4.5e-3])
def test_the_bytes_are_within_a_tenth_of_the_best_there_is(every_plan, budget: float) -> None:
    small, bounds = every_plan
    plan = planned(small, smooth(10), max_error=budget, formats=("bf16",), held_out=8)
    sizes = [c.bytes * (1 if c.format == "fp32" else 2) for c in plan.choices]
    totals = {names: sum(s / (1 + (n == "bf16")) for s, n in zip(sizes, names, strict=True)) for names in bounds}
    best = min(totals[names] for names, bound in bounds.items() if bound <= budget)
    assert plan.met
    assert plan.bytes <= 1.1 * best


def _policy(formats: dict[tuple[str, str], str]) -> Policy:
    layers: dict[str, dict[str, str]] = {}
    for (layer, stage), name in formats.items():
        layers.setdefault(layer, {})[stage] = name
    return Policy(layers={layer: Policy(**roles) for layer, roles in layers.items()})


def test_what_is_widened_is_what_costs_most_for_its_bytes(model) -> None:
    plan = planned(model, smooth(10), max_error=3e-3, formats=("bf16",))
    errors = sensitivities(model, smooth(3), probes=2).shares(Policy.named("mixed", "bf16"))
    price = {(c.layer, c.stage): c.bytes / (2 if c.format == "fp32" else 1) for c in plan.choices}
    worth = {stage: float(errors[stage].square().mean()) / price[stage] for stage in price}
    wide = [worth[c.layer, c.stage] for c in plan.choices if c.format == "fp32"]
    kept = [worth[c.layer, c.stage] for c in plan.choices if c.format == "bf16"]
    assert 0 < len(wide) < len(plan.choices)
    assert sum(wide) / len(wide) > 2 * sum(kept) / len(kept)


def test_bytes_are_what_is_stored(model) -> None:
    plan = planned(model, smooth(4), max_error=1.0)
    points, channels, kept = 16 * 16, 8, 8 * 5
    spectrum, field = 2 * kept * channels, points * channels
    weights = 2 * kept * channels * channels
    numbers = field + 2 * (2 * spectrum + 2 * field + weights) + points
    assert plan.full_bytes == 4 * numbers
    assert plan.bytes == 2 * numbers


def test_least_error_for_bytes(model, fresh) -> None:
    full = planned(model, smooth(4), max_error=1.0).full_bytes
    plans = [planned(model, smooth(8), max_bytes=share * full, formats=("bf16",)) for share in (0.5, 0.7, 1.0)]
    errors = [float(measure_error(model, fresh, plan.policy).mean()) for plan in plans]
    assert all(plan.bytes <= share * full for plan, share in zip(plans, (0.5, 0.7, 1.0), strict=True))
    assert errors[0] > errors[1] > errors[2]
    assert plans[2].bytes == full
    with pytest.raises(InputError, match="cannot be held: the narrowest formats store"):
        planned(model, smooth(4), max_bytes=0.4 * full)


def test_least_error_for_a_time(model) -> None:
    plan = planned(model, smooth(4), max_time=2.0)
    assert plan.time is not None
    assert plan.time <= 2.0
    with pytest.raises(InputError, match=r"the fastest formats take [0-9.]+ of full's time"):
        planned(model, smooth(4), max_time=1e-3)


def test_the_default_budget_follows_the_test_error(model) -> None:
    x = smooth(12)
    with torch.no_grad():
        answers = model(x)
    off = answers + 0.05 * answers.flatten(1).norm(dim=1).view(-1, 1, 1, 1) * _unit(x)
    plan = planned(model, (x, off))
    assert plan.budget == pytest.approx(0.02**0.5 * 0.05, rel=0.01)
    assert "sqrt(0.02) x the test error" in plan.source
    assumed = planned(model, x)
    assert assumed.budget == pytest.approx(0.02**0.5 * 0.01)
    assert "assumed" in assumed.source
    untrained = planned(model, (x, -off))
    assert "not trained" in untrained.source


def _unit(like: Tensor) -> Tensor:
    drawn = torch.randn(like.shape, generator=torch.Generator().manual_seed(3))
    return drawn / drawn.flatten(1).norm(dim=1).view(-1, 1, 1, 1)


def test_what_overflows_gets_a_format_with_more_range(model) -> None:
    plan = planned(model, 1e7 * smooth(4), max_error=0.05)
    assert "fp16" not in {c.format for c in plan.choices if c.layer == "lifting"}
    assert plan.met


def test_gradients_that_underflow_ask_for_loss_scaling(model) -> None:
    large = deepcopy(model)  # an answer of 1e4 on 256 points: the gradients of its norm are some 1e-7
    with torch.no_grad():
        large.projection.fcs[1].weight *= 4e3
        large.projection.fcs[1].bias *= 4e3
    samples = [smooth(1)]
    fp16 = measure_gradient_error(large, samples, Policy.named("mixed", "fp16"))
    assert fp16.loss_scaling
    assert 5 * fp16.scaled < fp16.plain
    assert not measure_gradient_error(large, samples, Policy.named("mixed", "bf16")).loss_scaling
    plan = planned(large, smooth(4), max_error=0.05)
    assert plan.loss_scaling
    assert "loss scaling" in str(plan)


def test_a_plan_is_applied_saved_and_kept_with_the_model(model, tmp_path) -> None:
    plan = planned(model, smooth(8), max_error=4e-3, formats=("bf16",))
    assert plan.policy.layers
    other = hw.FNO((8, 8), 1, 1, 8, n_layers=2)
    other.load_state_dict(model.state_dict())
    plan.apply(other)
    for choice in plan.choices:
        assert getattr(other.get_submodule(choice.layer).policy, choice.stage) == choice.format
    hw.save(other, tmp_path / "model.safetensors")
    loaded = hw.load(tmp_path / "model.safetensors")
    assert loaded.policy == plan.policy
    assert torch.equal(loaded(smooth(2)), other(smooth(2)))
    plan.save(tmp_path / "plan.json")
    values = json.loads((tmp_path / "plan.json").read_text())
    assert Policy.from_dict(values["policy"]) == plan.policy
    assert values["predicted_error"] == plan.predicted_error
    assert values["bytes"] == plan.bytes


def test_data_from_a_file_through_normalizers(model, tmp_path) -> None:
    x = smooth(12)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        for split, rows in (("train", slice(0, 6)), ("test", slice(6, 12))):
            file[f"{split}/x"], file[f"{split}/y"] = (2 * x + 5)[rows].numpy(), target(x)[rows].numpy()
    operator = Operator(model, Normalizer(torch.tensor([5.0]), torch.tensor([2.0])), None)
    plan = planned(operator, tmp_path / "d.h5", max_error=2e-3, formats=("bf16",))
    assert (plan.planned_on, plan.held_out) == (3, 6)
    assert plan.met
    plan.apply(operator)
    assert model.policy == plan.policy
    hw.set_precision(model, "full")


@pytest.mark.parametrize("kind", ["sphere", "unet", "cp", "scaled"])
def test_other_models_are_planned(kind: str) -> None:
    torch.manual_seed(0)
    built: nn.Module = {
        "sphere": lambda: hw.SFNO((8, 12), 1, 1, 6, n_layers=1),
        "unet": lambda: hw.UNet(1, 1, 4, 1),
        "cp": lambda: hw.FNO((8, 8), 1, 1, 6, n_layers=1, factorization="cp", rank=0.5),
        "scaled": lambda: hw.FNO((8, 8), 1, 1, 6, n_layers=2, resolution_scaling_factor=[2, 0.5]),
    }[kind]()
    plan = planned(built.eval(), smooth(4), max_error=5e-3)
    assert plan.met
    assert plan.bytes < 0.7 * plan.full_bytes


def test_the_names_that_others_rely_on(model) -> None:
    plan = hw.auto_precision(model, smooth(1), max_error=0.1)
    assert isinstance(plan, PrecisionPlan)
    assert isinstance(plan.policy, Policy)
    assert isinstance(plan.bytes, int)
    assert plan.held_out == 0
    assert "none being left" in str(plan)
    assert hw.planner.plan_precision is hw.auto_precision


def test_a_knapsack_that_a_greedy_choice_gets_wrong() -> None:
    """Widening a alone is the best bargain and not enough; b alone does it: a has to be given back."""
    costs = {(s, "x"): {"half": c / 2, "full": float(c)} for s, c in (("a", 2), ("b", 10))}
    errors = {"a": 1.0, "b": 2.0}
    problem = Knapsack(
        ("half", "full"), costs, lambda f: sum(errors[s] ** 2 for (s, _), name in f.items() if name == "half") ** 0.5
    )
    assert problem.least_cost(1.5) == {("a", "x"): "half", ("b", "x"): "full"}
    assert problem.least_error(7.0) == {("a", "x"): "full", ("b", "x"): "half"}
    assert problem.least_cost(-1.0) is None
    assert problem.least_error(5.0) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_error": -1.0}, "max_error must be a positive number, got -1.0"),
        ({"max_error": 0.1, "max_bytes": 5.0}, "max_error and max_bytes are given: expected one limit"),
        ({"formats": "fp16"}, "formats must be a list of format names"),
        ({"formats": ["fp64"]}, "fp64: weights are fp32"),
        ({"samples": 0}, "samples and held_out must be at least 1"),
        ({"data": torch.zeros(2, 16)}, "expected fields"),
        ({"data": torch.zeros(0, 1, 8, 8)}, "no sample"),
        ({"data": (torch.zeros(3, 1, 8, 8), torch.zeros(2, 1, 8, 8))}, "3 inputs and 2 targets"),
    ],
)
def test_bad_input_is_refused_in_one_line(model, change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        auto_precision(**{"model": model, "data": smooth(2), **change})
