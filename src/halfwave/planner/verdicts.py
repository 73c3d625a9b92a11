"""What one table of `halfwave plan` says: for each policy what it needs, how fast it is and whether it may be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from halfwave.numerics import FORMATS
from halfwave.planner.cost import Clock, plan_cost
from halfwave.planner.largest_batch import largest_batch
from halfwave.planner.memory import plan_memory
from halfwave.planner.workload import recipe_grid, recipe_workload
from halfwave.precision import NAMES, SPECTRAL_ROLES, Policy
from halfwave.recipes import Recipe
from halfwave.theory import bound_precision


@dataclass(frozen=True)
class PolicyVerdict:
    """One row: a policy on a device.

    `precision_error` bounds what rounding in the transform does to one Fourier coefficient of a field with |v| <= 1;
    `grid_error` is what the grid does to it for the worst such field with Lipschitz constant 2 (`theory.crossover`).
    Smooth fields have smaller grid errors, so a verdict on data needs a measurement (`certify`).
    """

    policy: str
    peak_bytes: int
    needed_bytes: int
    fits: bool
    largest_batch: int
    seconds: float
    relative_time: float
    precision_error: float
    grid_error: float

    @property
    def verdict(self) -> str:
        """Whether it fits, and if rounding may cost more than the grid, that it has to be measured."""
        if not self.fits:
            return "does not fit"
        return "fits" if self.precision_error <= self.grid_error else "fits, measure"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}


def judge(
    recipe: Recipe,
    batch: int,
    grid: int | None,
    memory: int,
    kind: str,
    clock: Clock,
    *,
    arguments: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    recompute: bool = False,
) -> Iterator[PolicyVerdict]:
    """The verdict on each of the four policies, full first, as they are planned.

    `arguments` of the model change the recipe's; `memory` is in bytes, `kind` and `clock` are those of the device.
    """
    work = recipe_workload(recipe, grid, arguments)
    sides = recipe_grid(recipe, grid)
    full_seconds: float | None = None
    for name in NAMES:
        policy = Policy.named(name, dtype, device=kind)
        plan = plan_memory(work.model, work.inputs(batch), policy=policy, device=kind, recompute=recompute)
        cost = plan_cost(work.model, work.inputs(batch), clock, policy=policy, device=kind, recompute=recompute)
        full_seconds = cost.seconds if full_seconds is None else full_seconds
        yield PolicyVerdict(
            policy=name,
            peak_bytes=plan.peak_bytes,
            needed_bytes=plan.needed_bytes,
            fits=plan.needed_bytes <= memory,
            largest_batch=largest_batch(work, memory, policy, device=kind, recompute=recompute),
            seconds=cost.seconds,
            relative_time=cost.seconds / full_seconds,
            precision_error=_rounding(policy, sides),
            grid_error=1.0 / max(sides),
        )


def _rounding(policy: Policy, sides: tuple[int, ...]) -> float:
    """Bound on the rounding of a transform by matrix products, in the coarsest of the formats of spectral stages."""
    coarsest = max((policy.format(role) for role in SPECTRAL_ROLES), key=lambda format: format.unit_roundoff)
    additions = sum(side - 1 for side in sides) + 1
    return float(bound_precision(FORMATS[coarsest.name], additions, sup=1.0, algorithm="gemm"))
