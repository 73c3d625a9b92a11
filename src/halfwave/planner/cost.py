"""plan_cost: operations and bytes of a training step by module, and how long it will take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from torch import nn

from halfwave.planner.memory import planned_kind, planned_policy
from halfwave.planner.meta_step import Loss, MetaStep
from halfwave.planner.module_path import ModulePath
from halfwave.planner.op_costs import OpCosts, OperatorCall
from halfwave.planner.sizes import format_bytes
from halfwave.precision import Policy
from halfwave.tables import build_table, table_text


class Clock(Protocol):
    """Whatever can say how long an operator takes."""

    def describe(self) -> str: ...

    def seconds(self, operator: OperatorCall) -> float: ...


@dataclass(frozen=True)
class ModuleCost:
    """What the operators of one module cost in a phase of the step (see `MemoryPlan`)."""

    phase: str
    module: str
    calls: int
    flops: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class CostPlan:
    """The cost of one training step: the sum over its operators of what `clock` says of each."""

    policy: str
    device: str
    clock: str
    modules: tuple[ModuleCost, ...]

    @property
    def seconds(self) -> float:
        return sum(module.seconds for module in self.modules)

    @property
    def flops(self) -> int:
        return sum(module.flops for module in self.modules)

    @property
    def bytes(self) -> int:
        return sum(module.bytes for module in self.modules)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": self.seconds, "flops": self.flops, "bytes": self.bytes}

    def __str__(self) -> str:
        slowest = sorted(self.modules, key=lambda cost: -cost.seconds)[:12]
        rows = [(cost.module or "model", cost.phase, *self._figures(cost)) for cost in slowest]
        table = build_table("slowest modules", ["module", "phase"], ["time", "GFLOP", "moved"], rows)
        moved = format_bytes(self.bytes)
        return (
            f"one training step: {self.seconds:.4g} s, {self.flops / 1e9:.4g} GFLOP, {moved} moved\n"
            f"by {self.clock}\n{table_text(table)}"
        )

    def _figures(self, cost: ModuleCost) -> tuple[str, ...]:
        share = cost.seconds / self.seconds if self.seconds else 0.0
        return f"{share:.1%}", f"{cost.flops / 1e9:.3g}", format_bytes(cost.bytes)


def plan_cost(
    model: nn.Module,
    inputs: Any,
    clock: Clock,
    *,
    policy: str | Policy | None = None,
    optimizer: str = "adamw",
    recompute: bool = False,
    device: str | None = None,
    loss: Loss | None = None,
) -> CostPlan:
    """Plan the cost of one training step, run on `meta`; arguments as in `plan_memory`.

    `clock` is `Roofline(get_device("a100-40gb"))` for a device of the table, or `Stopwatch()` for this machine.
    """
    kind = planned_kind(model, device)
    chosen = planned_policy(policy, kind)
    step = MetaStep(model, inputs, chosen, optimizer, recompute, kind, loss)
    path = ModulePath(lambda _: None)
    with OpCosts(lambda: path.place) as costs:
        step.run(path)
    sums: dict[tuple[str, str], list[float]] = {}
    for place, operator, count in costs.calls():
        total = sums.setdefault(place, [0, 0, 0, 0.0])
        figures = (1, operator.flops, operator.nbytes, clock.seconds(operator))
        for n, figure in enumerate(figures):
            total[n] += count * figure
    modules = tuple(
        ModuleCost(phase, module, int(calls), int(flops), int(nbytes), seconds)
        for (phase, module), (calls, flops, nbytes, seconds) in sums.items()
    )
    return CostPlan("the model's own" if chosen is None else str(chosen), kind, clock.describe(), modules)
