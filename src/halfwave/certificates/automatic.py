"""auto_precision: formats for every layer and stage, chosen by what they do to the answer and by what they cost.

The sensitivities of one float64 run (see `sensitivity`) say what any choice of formats does to the answer; a knapsack
(see `knapsack`) finds the cheapest choice within a budget, or the most accurate one within bytes or time. It is then
measured on samples that it was not made from, in the answer and in the gradients, and made stricter until it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from halfwave.certificates.finite_sample import tolerance_bound
from halfwave.certificates.gradient_error import measure_gradient_error
from halfwave.certificates.knapsack import Formats, Knapsack
from halfwave.certificates.planning_data import Data, PlanningData, measure_test_error, read_planning_data
from halfwave.certificates.precision_plan import Choice, PrecisionPlan
from halfwave.certificates.samples import Measured
from halfwave.certificates.sensitivity import Sensitivities, sensitivities
from halfwave.certificates.stage_times import time_stages
from halfwave.certificates.stored_bytes import Stage, stored_bytes, stored_numbers, width
from halfwave.errors import InputError
from halfwave.numerics import FORMATS, get_format
from halfwave.precision import ROLES, Policy
from halfwave.spectral import SpectralConv

CANDIDATES = ("fp16", "bf16", "fp32")
"""Formats that tensors are really stored in here; fp8 and tf32 exist as rounding and save nothing yet."""

ASSUMED_TEST_ERROR = 0.01
"""Test error that the default budget assumes where none is known: a well-trained operator's."""
TRAINED = 0.5
"""A model with a larger test error is not trained: its error says nothing about what it will tolerate."""
_PROBES = 3  # one more than of a certificate: a plan is made once
_TRIES = 8
_TRIALS = 16
_PROMISING = 1.5  # times the budget: an estimate may be that much too large
_BAD_GRADIENT = 0.5


def auto_precision(
    model: nn.Module,
    data: Data,
    *,
    max_error: float | None = None,
    max_bytes: float | None = None,
    max_time: float | None = None,
    formats: Sequence[str] = CANDIDATES,
    samples: int = 4,
    held_out: int = 16,
    probes: int = _PROBES,
) -> PrecisionPlan:
    """Choose a format for each layer and stage of a trained model by a budget; the model is not changed.

    Without a budget the error may be p = sqrt(2 · 0.01) e, e the test error of the model on the data's targets: where
    rounding is independent of the model's own error, sqrt(e² + p²) is then 1% above e. Where no targets are known, or
    the model is not trained, e is taken as 1%; the plan's `source` says so.

    Args:
        model: a neural operator, or a wrapper around one.
        data: inputs (N, C, *grid); a pair (inputs, targets); samples one by one, each what the model is called with;
            or a dataset, a split of one, or its file (planned on train samples, checked on test samples).
        max_error: relative L2 error of an answer that inputs may have, least bytes for it: 90 of 100 new inputs stay
            within, which is 99% sure from the held-out samples (`tolerance_bound`), if these are 8 or more.
        max_bytes: bytes stored for a sample, weights included (see `stored_bytes`): least error for them.
        max_time: time of a forward pass relative to full precision's, as measured here: least error within it.
        formats: candidates; fp32 is always among them.
        samples, held_out: how many samples to plan on, and to check on.
        probes: of the sensitivities.
    """
    _check(max_error, max_bytes, max_time)
    candidates = _ordered(formats)
    given = read_planning_data(data, samples, held_out)
    found = sensitivities(model, given.planned_on, probes=probes)
    stabilizer = _stabilizer(model)
    truth = Measured(model, given.held_out, Policy(stabilizer=stabilizer))
    planner = _Planner(model, given, found, truth, candidates, stabilizer)
    if max_bytes is not None:
        limit = max_bytes
        return planner.with_gradients(lambda planner: planner.within_bytes(limit))
    if max_time is not None:
        share = max_time
        return planner.with_gradients(lambda planner: planner.within_time(share))
    budget, source = _budget(model, given, max_error)
    return planner.with_gradients(lambda planner: planner.within_error(budget, source))


def _check(*limits: float | None) -> None:
    names = ("max_error", "max_bytes", "max_time")
    known = [(name, value) for name, value in zip(names, limits, strict=True) if value is not None]
    if len(known) > 1:
        raise InputError(f"{' and '.join(name for name, _ in known)} are given: expected one limit")
    for name, value in known:
        if not 0 < value < math.inf:
            raise InputError(f"{name} must be a positive number, got {value!r}")


def _ordered(formats: Sequence[str]) -> tuple[str, ...]:
    """Narrowest first, fp32 last; a string would be a sequence of letters."""
    if isinstance(formats, str) or not formats:
        raise InputError(f"formats must be a list of format names, got {formats!r}")
    chosen = {get_format(name) for name in formats} | {FORMATS["fp32"]}
    if FORMATS["fp64"] in chosen:
        raise InputError("formats has fp64: weights are fp32, expected formats that are not wider")
    return tuple(format.name for format in sorted(chosen, key=lambda format: (format.precision, format.largest)))


def _stabilizer(model: nn.Module) -> str:
    """That of the model's function: a format must not bring another with it."""
    acting = {module.stabilizer for module in model.modules() if isinstance(module, SpectralConv)}
    return acting.pop() if len(acting) == 1 else "auto"


def _budget(model: nn.Module, given: PlanningData, max_error: float | None) -> tuple[float, str]:
    if max_error is not None:
        return max_error, f"errors of 90 in 100 inputs up to {max_error:.2%}, as asked for"
    rule = "which leaves the test error within 1% where rounding is independent of the model's error"
    if given.targets is not None:
        error = measure_test_error(model, given.held_out, given.targets)
        if error < TRAINED:
            budget = math.sqrt(0.02) * error
            return budget, f"error at most {budget:.2%} = sqrt(0.02) x the test error {error:.2%}, {rule}"
        why = f"the model is not trained (error {error:.0%})"
    else:
        why = "no targets are known"
    budget = math.sqrt(0.02) * ASSUMED_TEST_ERROR
    return budget, f"error at most {budget:.2%} = sqrt(0.02) x an assumed test error of 1% ({why}), {rule}"


@dataclass(frozen=True)
class _Planner:
    """A model, its data and sensitivities, and the formats to choose from."""

    model: nn.Module
    data: PlanningData
    found: Sensitivities
    truth: Measured
    candidates: tuple[str, ...]
    stabilizer: str

    def with_gradients(self, make: Callable[[_Planner], PrecisionPlan]) -> PrecisionPlan:
        """The plan that is made of this; without fp16 where its range loses the gradients, loss scaling or not."""
        plan = make(self)
        if plan.gradient.best <= _BAD_GRADIENT or "fp16" not in self.candidates:
            return plan
        plan = make(replace(self, candidates=tuple(name for name in self.candidates if name != "fp16")))
        return replace(plan, source=f"{plan.source}; without fp16, in which gradients are lost")

    def within_error(self, budget: float, source: str) -> PrecisionPlan:
        """Least bytes; what is predicted is held to less and less until what is measured holds."""
        problem, aim = self._knapsack(self._byte_costs()), budget
        formats = problem.widest()
        for _ in range(_TRIES):
            tried = problem.least_cost(aim) or problem.widest()
            error = tolerance_bound(self._measured(tried))
            if error <= budget:
                formats = self._cheaper(problem, tried, budget)
                break
            aim *= min(0.8, 0.95 * budget / error) if math.isfinite(error) else 0.25
        return self._plan(formats, budget, source)

    def _cheaper(self, problem: Knapsack, formats: Formats, budget: float) -> Formats:
        """Where the estimate was strict: changes that save bytes and hold as measured, the largest saving first."""
        refused: list[Formats] = []
        for _ in range(_TRIALS):
            paid = problem.cost(formats)
            open_to = [c for c in problem.changes(formats) if problem.cost(c) < paid and c not in refused]
            promising = [c for c in open_to if problem.error(c) <= _PROMISING * budget]
            if not promising:
                break
            tried = min(promising, key=problem.cost)
            if tolerance_bound(self._measured(tried)) <= budget:
                formats = tried
            else:
                refused.append(tried)
        return formats

    def within_bytes(self, limit: float) -> PrecisionPlan:
        problem = self._knapsack(self._byte_costs())
        formats = problem.least_error(limit)
        if formats is None:
            least = problem.cost(problem.cheapest())
            raise InputError(f"max_bytes of {limit:.0f} cannot be held: the narrowest formats store {least:.0f}")
        return self._plan(formats, math.inf, f"least error in {limit:,.0f} bytes stored for a sample, as asked for")

    def within_time(self, limit: float) -> PrecisionPlan:
        problem = self._knapsack(time_stages(self.model, self.data.planned_on[0], list(self._numbers), self.candidates))
        full = problem.cost(problem.widest())
        formats = problem.least_error(limit * full)
        if formats is None:
            least = problem.cost(problem.cheapest()) / full
            raise InputError(f"max_time of {limit} cannot be held: the fastest formats take {least:.2f} of full's time")
        plan = self._plan(formats, math.inf, f"least error in {limit} of full precision's time, as asked for")
        return replace(plan, time=problem.cost(formats) / full)

    @property
    def _numbers(self) -> dict[Stage, float]:
        return stored_numbers(self.found)

    def _byte_costs(self) -> dict[Stage, dict[str, float]]:
        return {
            stage: {name: count * width(name) for name in self.candidates} for stage, count in self._numbers.items()
        }

    def _knapsack(self, costs: Mapping[Stage, Mapping[str, float]]) -> Knapsack:
        known: dict[tuple[str, ...], float] = {}

        def error(formats: Formats) -> float:
            key = tuple(formats.values())
            if key not in known:
                known[key] = _usual_most(self.found.predict(self.policy(formats)))
            return known[key]

        return Knapsack(self.candidates, costs, error)

    def _measured(self, formats: Formats) -> Tensor:
        """The errors of the held-out samples."""
        return self.truth.error(self.policy(formats)).nan_to_num(nan=math.inf)

    def policy(self, formats: Formats) -> Policy:
        """The most common format of each role, and the layers that differ from it."""
        common = {role: _most_common([name for (_, r), name in formats.items() if r == role]) for role in ROLES}
        base = Policy(**common, stabilizer=self.stabilizer, name="planned")  # type: ignore[arg-type]
        wanted: dict[str, Policy] = {}
        for (module, role), name in formats.items():
            layer = self.found.holders[module].name
            wanted[layer] = wanted.get(layer, base).with_(**{role: name}, name="planned")
        # A layer also needs an entry where one above it has another: `Policy.of` looks for the longest name.
        own = {layer: policy for layer, policy in wanted.items() if policy != base}
        below = {n: p for n, p in wanted.items() if any(n.startswith(f"{above}.") for above in own)}
        return replace(base, layers=tuple((own | below).items()))

    def _plan(self, formats: Formats, budget: float, source: str) -> PrecisionPlan:
        policy = self.policy(formats)
        gradient = measure_gradient_error(self.model, self.data.held_out[:2], policy)
        numbers, shares, measured = self._numbers, self.found.shares(policy), self._measured(formats)
        choices = tuple(
            Choice(
                self.found.holders[stage[0]].name,
                stage[1],
                name,
                float(shares[stage].mean()),
                numbers[stage] * width(name),
            )
            for stage, name in formats.items()
        )
        return PrecisionPlan(
            policy,
            choices,
            float(self.found.predict(policy).mean()),
            float(measured.mean()),
            tolerance_bound(measured),
            budget,
            source,
            round(stored_bytes(numbers, formats)),
            round(stored_bytes(numbers, dict.fromkeys(formats, "fp32"))),
            None,
            gradient,
            len(self.data.planned_on),
            len(self.data.held_out) if self.data.apart else 0,
        )


def _usual_most(errors: Tensor) -> float:
    """Mean and two standard deviations: where to look for formats, before they are measured."""
    spread = errors.std() if len(errors) > 1 else torch.zeros(())
    return float(errors.mean() + 2 * spread) if bool(errors.isfinite().all()) else math.inf


def _most_common(names: list[str]) -> str:
    return max(sorted(set(names)), key=names.count) if names else "fp32"
