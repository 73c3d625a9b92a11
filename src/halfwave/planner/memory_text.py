"""How a memory plan prints itself."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from halfwave.planner.sizes import format_bytes

if TYPE_CHECKING:
    from halfwave.planner.memory import LiveTensor, MemoryPlan

_SHOWN = 8


def describe(plan: MemoryPlan) -> str:
    """Totals, the modules at their fullest, the largest tensors at the peak, and what was assumed."""
    where = f"{plan.device}{', blocks recompute' if plan.recompute else ''}"
    lines = [
        f"one training step of {plan.model} on {where}, {plan.optimizer}",
        *wrap(f"policy: {plan.policy}", 80, subsequent_indent="  "),
        f"  peak of live tensors  {format_bytes(plan.peak_bytes):>10}",
        f"    parameters          {format_bytes(plan.parameters):>10}",
        f"    gradients           {format_bytes(plan.gradients):>10}",
        f"    optimizer state     {format_bytes(plan.optimizer_state):>10}",
        f"    batch               {format_bytes(plan.batch):>10}",
        f"    activations         {format_bytes(plan.activations):>10}  (at their own peak)",
        f"  allocator's margin    {format_bytes(plan.overhead.margin):>10}",
        f"  workspaces            {format_bytes(plan.workspace):>10}",
        f"  context               {format_bytes(plan.overhead.context):>10}",
        f"  the device needs      {format_bytes(plan.needed_bytes):>10}",
        "fullest modules:",
        *_fullest(plan),
        "largest tensors at the peak:",
        *_largest(plan),
        "assumed:",
        *(
            line
            for sentence in plan.overhead.assumptions
            for line in wrap(sentence, 80, initial_indent="  ", subsequent_indent="    ")
        ),
    ]
    return "\n".join(lines)


def _fullest(plan: MemoryPlan) -> list[str]:
    largest: dict[tuple[str, str], int] = {}
    for moment in plan.timeline:
        key = (moment.phase, moment.module or "model")
        largest[key] = max(largest.get(key, 0), moment.peak_bytes)
    chosen = sorted(largest.items(), key=lambda item: -item[1])[:_SHOWN]
    return [f"  {format_bytes(peak):>10}  {phase} of {module}" for (phase, module), peak in chosen]


def _largest(plan: MemoryPlan) -> list[str]:
    """Tensors of one kind, shape and dtype on one line, with the name of the first."""
    alike: dict[tuple[str, tuple[int, ...], str], list[LiveTensor]] = {}
    for tensor in plan.at_peak:
        alike.setdefault((tensor.kind, tensor.shape, tensor.dtype), []).append(tensor)
    groups = sorted(alike.values(), key=lambda group: -_sum(group))
    lines = [_line(group) for group in groups[:_SHOWN]]
    rest = [tensor for group in groups[_SHOWN:] for tensor in group]
    if rest:
        lines.append(f"  {format_bytes(_sum(rest)):>10}  {len(rest)} more")
    return lines


def _line(group: list[LiveTensor]) -> str:
    first = group[0]
    shape = "x".join(map(str, first.shape)) or "one number"
    count = f"{len(group)} x " if len(group) > 1 else ""
    text = f"  {format_bytes(_sum(group)):>10}  {first.kind} {count}{shape} {first.dtype}, {first.name}"
    return text if len(text) <= 80 else text[:77] + "..."


def _sum(tensors: list[LiveTensor]) -> int:
    return sum(tensor.bytes for tensor in tensors)
