"""Precision along a rollout: when half and full part, from the same weights, and for how many steps half is safe.

The two rollouts differ by the rounding of every step, carried on by the system: with a growth of e^λ a step, and an
error ε that rounding makes in one,

    d_n = ε (e^(nλ) - 1) / (e^λ - 1).

Half is safe as long as d_n is below the model's own error at step n: what rounding adds is less than what is wrong
anyway. λ is measured on the full model, by a small difference of two states that is made small again after each step
(Benettin et al. 1980); 1 / λ steps are the Lyapunov time of the model. ε is what the certificate predicts of one step
where there is one, or else the measured difference after one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.models import set_precision
from halfwave.precision import Policy
from halfwave.training.rollout import roll_out, stepper_of

StepError = Callable[[nn.Module, Tensor, Policy], Tensor]
"""A prediction of one step's relative rounding error (B,): of the neural operator, its input and the policy."""
_PERTURBATION = 1e-3
"""Of the state: far above the rounding of fp32, far below the state."""


@dataclass(frozen=True)
class Parting:
    """Two rollouts from one state, in full and under `policy`."""

    policy: str
    differences: list[float]
    """Relative L2 difference of the two at each step, mean over trajectories."""
    own_errors: list[float]
    """Of the full rollout against the truth."""
    growth: float
    """λ, of a step."""
    step_error: float
    """ε, relative."""
    step_error_from: str
    """measured, or predicted by the certificate."""
    interval: float

    @property
    def lyapunov_time(self) -> float | None:
        """In time; None where differences do not grow."""
        return self.interval / self.growth if self.growth > 0 else None

    @property
    def predicted(self) -> list[float]:
        """d_n of the model above, at most 2: two states that have nothing in common differ by about as much."""
        return [min(2.0, accumulated(self.step_error, self.growth, n)) for n in range(1, len(self.differences) + 1)]

    @property
    def parts_at(self) -> int | None:
        """The first step at which the difference is above the model's own error; None where it never is."""
        return _first_above(self.differences, self.own_errors)

    @property
    def predicted_to_part_at(self) -> int | None:
        return _first_above(self.predicted, self.own_errors)

    @property
    def advice(self) -> str:
        if self.parts_at is None:
            return f"{self.policy} is safe for all {len(self.differences)} steps: it differs less than the model errs"
        if self.parts_at == 1:
            return f"{self.policy} is not safe: its first step differs by more than the model errs"
        return f"{self.policy} is safe for {self.parts_at - 1} steps: then it differs by more than the model errs"

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "predicted": self.predicted,
            "parts_at": self.parts_at,
            "predicted_to_part_at": self.predicted_to_part_at,
            "lyapunov_time": self.lyapunov_time,
            "advice": self.advice,
        }


def accumulated(error: float, growth: float, steps: int) -> float:
    """ε (e^(nλ) - 1) / (e^λ - 1), which is n ε where nothing grows."""
    if abs(growth) < 1e-6:
        return error * steps
    return error * math.expm1(min(growth * steps, 700.0)) / math.expm1(growth)


def compare_precisions(
    model: nn.Module,
    x: Tensor,
    policy: Policy,
    own_errors: list[float],
    *,
    interval: float = 1.0,
    step_error: StepError | None = None,
) -> Parting:
    """Roll out in full and under `policy`, from x (B x (h C + E) x grid), over the steps of `own_errors`."""
    full, half = deepcopy(model).eval(), deepcopy(model).eval()
    set_precision(full, "full")
    set_precision(half, policy)
    differences = _differences(full, half, x, len(own_errors))
    predicted = None if step_error is None else _first_step(step_error, full, x, policy)
    return Parting(
        policy=policy.name,
        differences=differences,
        own_errors=own_errors[: len(differences)],
        growth=measure_growth(full, x, min(64, len(own_errors))),
        step_error=differences[0] if predicted is None else predicted,
        step_error_from="measured" if predicted is None else "certificate",
        interval=interval,
    )


def _differences(full: nn.Module, half: nn.Module, x: Tensor, steps: int) -> list[float]:
    found: list[float] = []
    for a, b in zip(roll_out(full, x, steps), roll_out(half, x, steps), strict=True):
        norms = [torch.linalg.vector_norm(u.double().flatten(1), dim=1) for u in (b - a, a)]
        difference = float((norms[0] / norms[1]).mean())
        if not math.isfinite(difference):
            break
        found.append(difference)
    return found


@torch.no_grad()
def measure_growth(model: nn.Module, x: Tensor, steps: int) -> float:
    """λ of a step: the mean growth of the logarithm of a small difference, past the first fifth of the steps."""
    operator, unrolled = stepper_of(model)
    encoded = x if operator.x_normalizer is None else operator.x_normalizer.encode(x)
    states, beside = unrolled.split(encoded)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(states.shape, generator=generator).to(states)
    other = states + drawn * _scaled(_PERTURBATION, states, drawn)
    growths: list[float] = []
    for _ in range(steps):
        before = _norm(other - states)
        states, other = unrolled.advance(states, beside), unrolled.advance(other, beside)
        difference = other - states
        growths.append(float((_norm(difference) / before).log().mean()))
        other = states + difference * _scaled(_PERTURBATION, states, difference)
    settled = growths[len(growths) // 5 :]
    return sum(settled) / len(settled)


def _scaled(size: float, states: Tensor, difference: Tensor) -> Tensor:
    """The factor that makes a difference `size` times as large as the states."""
    factor = size * _norm(states) / _norm(difference).clamp_min(1e-30)
    return factor.reshape(-1, *[1] * (states.ndim - 1))


def _norm(u: Tensor) -> Tensor:
    return torch.linalg.vector_norm(u.flatten(1), dim=1)


def _first_step(step_error: StepError, full: nn.Module, x: Tensor, policy: Policy) -> float:
    """The prediction for the first step, as the state has it: of a residual model the change alone is rounded.

    Each state by itself: one that hardly changes has a change of large relative error.
    """
    operator, unrolled = stepper_of(full)
    encoded = x if operator.x_normalizer is None else operator.x_normalizer.encode(x)
    errors = step_error(unrolled.model, encoded, policy)
    if not unrolled.unrolling.residual:
        return float(errors.mean())
    with torch.no_grad():
        states, beside = unrolled.split(encoded)
        before = states[:, -unrolled.unrolling.channels :]
        after = unrolled.advance(states, beside)[:, -unrolled.unrolling.channels :]
    return float((errors * (_norm(after - before) / _norm(after)).to(errors)).mean())


def _first_above(values: list[float], limits: list[float]) -> int | None:
    return next((n for n, (a, b) in enumerate(zip(values, limits, strict=True), start=1) if a > b), None)
