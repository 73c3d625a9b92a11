"""plan_memory: what a training step will hold, tensor by tensor, before anything is run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from halfwave.errors import InputError
from halfwave.measure import LiveBytes, storage_bytes
from halfwave.numerics import few_slices
from halfwave.planner.allocator import Overhead, Scratch, estimate_overhead
from halfwave.planner.meta_step import Loss, MetaStep, Prepare
from halfwave.planner.module_path import ModulePath
from halfwave.planner.sizes import format_bytes
from halfwave.precision import NAMES, Policy
from halfwave.tables import WIDTH, build_table, table_text

KINDS = ("cpu", "cuda")
_SHOWN = 8


@dataclass(frozen=True)
class Moment:
    """A span of a step in which one module is at work: the largest sum of live bytes in it, and the sum at its end.

    `phase` is forward, backward or update; `module` is "" where the model itself is at work, or the loss.
    """

    phase: str
    module: str
    peak_bytes: int
    live_bytes: int


@dataclass(frozen=True)
class LiveTensor:
    """A tensor that is alive at the peak.

    `kind` is parameter, gradient, optimizer state, batch, constant (matrices, graphs) or activation (all that the step
    makes: what is saved for the backward pass, gradients of fields, temporaries). `name` is the parameter's, or of the
    module that made the tensor and the phase in which it did.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of one training step in the long run (the optimizer's state exists), in bytes.

    Attributes:
        model, policy, device, optimizer, recompute: what was planned.
        peak_bytes: the largest sum of live tensor storages, each once: what `LiveBytes` counts in the real step.
        parameters, gradients, optimizer_state, batch: bytes of each.
        activations: the largest sum of live bytes that are none of those.
        overhead: what the device takes beyond live tensors, assumed and stated.
        timeline: the modules in the order in which they are at work.
        at_peak: the tensors alive at the peak, largest first.
    """

    model: str
    policy: str
    device: str
    optimizer: str
    recompute: bool
    peak_bytes: int
    parameters: int
    gradients: int
    optimizer_state: int
    batch: int
    activations: int
    overhead: Overhead
    timeline: tuple[Moment, ...]
    at_peak: tuple[LiveTensor, ...]

    @property
    def workspace(self) -> int:
        """Scratch space of the libraries, assumed; not part of `peak_bytes`."""
        return self.overhead.workspace

    @property
    def needed_bytes(self) -> int:
        """What the device has to have: the peak, the allocator's margin, workspaces and context."""
        return self.peak_bytes + self.overhead.margin + self.overhead.workspace + self.overhead.context

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"workspace": self.workspace, "needed_bytes": self.needed_bytes}

    def __str__(self) -> str:
        return _describe(self)


def plan_memory(
    model: nn.Module,
    input_shapes_or_batch: Any,
    *,
    policy: str | Policy | None = None,
    optimizer: str = "adamw",
    recompute: bool = False,
    device: str | torch.device | None = None,
    loss: Loss | None = None,
    prepare: Prepare | None = None,
) -> MemoryPlan:
    """Plan one training step: its real forward pass, backward pass and update, run on the `meta` device and counted.

    Nothing of the model's size is allocated, no GPU is needed, and the model is not changed.

    >>> print(plan_memory(model, (8, 1, 128, 128), policy="mixed", device="cuda"))

    Args:
        model: any module; a model built under ``torch.device("meta")`` takes no memory at any size.
        input_shapes_or_batch: a tensor or a shape; a sequence of these in the order of the model's inputs (one more is
            the target); or a mapping from the names of its inputs (and ``"y"``, the target). A GINO needs its points as
            tensors.
        policy: a `Policy` or the name of one, with the half format of `device`; None leaves the model's own.
        optimizer: ``"adamw"``, ``"adam"``, ``"momentum"`` or ``"sgd"``, ``"adamw_pair"``, ``"adamw_pair_bf16"`` or
            ``"adamw_pair_8bit"`` (see `halfwave.AdamW`), in their fused form.
        recompute: every block keeps its input only, as in the trainer.
        device: ``"cpu"`` (this one) or ``"cuda"``; by default the model's, or for a model on `meta` the present one.
        loss: of prediction and target; by default the relative L2 error.
        prepare: what is done to the model's copy on `meta` first (see `plan_mesh`).
    """
    kind = planned_kind(model, device)
    chosen = planned_policy(policy, kind)
    step = MetaStep(model, input_shapes_or_batch, chosen, optimizer, recompute, kind, loss, prepare)
    state = step.update.state()
    scratch = Scratch()
    live = LiveBytes(lambda tensor: (path.place, tuple(tensor.shape), tensor.dtype), scratch.watch)
    path = ModulePath(live.mark)
    with live, few_slices():
        groups = {
            "parameter": _tokens(live, dict(step.model.named_parameters())),
            "optimizer state": _tokens(live, state),
            "batch": _tokens(live, {f"batch {n}": t for n, t in enumerate(step.batch())}),
        }
        live.hold(step.model.buffers())
        step.run(path)
        groups["gradient"] = _tokens(live, step.gradients())
    held = set().union(*groups.values())
    return MemoryPlan(
        model=type(model).__name__,
        policy="the model's own" if chosen is None else str(chosen),
        device=kind,
        optimizer=optimizer,
        recompute=recompute,
        peak_bytes=live.peak(),
        parameters=storage_bytes(step.model.parameters()),
        gradients=storage_bytes(step.gradients().values()),
        optimizer_state=storage_bytes(state.values()),
        batch=storage_bytes(step.batch()),
        activations=live.peak(without=held),
        overhead=estimate_overhead(live, scratch, kind),
        timeline=tuple(Moment(phase, module, peak, end) for (phase, module), peak, end in live.spans()),
        at_peak=_alive(live, groups),
    )


def _tokens(live: LiveBytes, tensors: dict[str, Tensor]) -> dict[int, str]:
    return {live.token(tensor): name for name, tensor in tensors.items()}


def _alive(live: LiveBytes, groups: dict[str, dict[int, str]]) -> tuple[LiveTensor, ...]:
    known = {token: (name, kind) for kind, tokens in groups.items() for token, name in tokens.items()}
    found = []
    for token, nbytes in live.alive_at_peak().items():
        (phase, module), shape, dtype = live.notes[token]
        made = f"{module or 'model'}, {phase}"
        name, kind = known.get(token, (made, "constant" if live.older(token) else "activation"))
        found.append(LiveTensor(name, kind, shape, str(dtype).removeprefix("torch."), nbytes))
    return tuple(sorted(found, key=lambda tensor: -tensor.bytes))


def planned_kind(model: nn.Module, device: str | torch.device | None) -> str:
    """The kind of device to plan for: the given one, else the model's, else the present one."""
    if device is None:
        kinds = {p.device.type for p in model.parameters()} - {"meta"}
        return min(kinds, default="cuda" if torch.cuda.is_available() else "cpu")
    kind = torch.device(device).type if isinstance(device, torch.device) else device.split(":")[0]
    if kind not in KINDS:
        raise InputError(f"cannot plan for device {str(device)!r}: expected {' or '.join(KINDS)}")
    return kind


def planned_policy(policy: str | Policy | None, kind: str) -> Policy | None:
    """A policy, or the named one with the half format of this kind of device."""
    if policy is None or isinstance(policy, Policy):
        return policy
    if policy not in NAMES:
        raise InputError(f"unknown precision {policy!r}: expected one of {', '.join(NAMES)}")
    return Policy.named(policy, device=kind)


def _describe(plan: MemoryPlan) -> str:
    """Totals, the modules at their fullest, the largest tensors at the peak, and what was assumed."""
    where = f"{plan.device}{', blocks recompute' if plan.recompute else ''}"
    assumed = (wrap(s, WIDTH, initial_indent="  ", subsequent_indent="    ") for s in plan.overhead.assumptions)
    return "\n".join(
        (
            f"one training step of {plan.model} on {where}, {plan.optimizer}",
            *wrap(f"policy: {plan.policy}", WIDTH, subsequent_indent="  "),
            *map(table_text, (_totals(plan), _fullest(plan), _largest(plan))),
            "assumed:",
            *(line for lines in assumed for line in lines),
        )
    )


def _totals(plan: MemoryPlan) -> Table:
    sizes = {
        "parameters": plan.parameters,
        "gradients": plan.gradients,
        "optimizer state": plan.optimizer_state,
        "batch": plan.batch,
        "activations, at their own peak": plan.activations,
        "all live tensors, at their peak": plan.peak_bytes,
        "the allocator's margin": plan.overhead.margin,
        "workspaces": plan.workspace,
        "context": plan.overhead.context,
        "the device needs": plan.needed_bytes,
    }
    rows = [(name, format_bytes(size)) for name, size in sizes.items()]
    return build_table("", ["what"], ["memory"], rows, total=1)


def _fullest(plan: MemoryPlan) -> Table:
    largest: dict[tuple[str, str], int] = {}
    for moment in plan.timeline:
        key = (moment.phase, moment.module or "model")
        largest[key] = max(largest.get(key, 0), moment.peak_bytes)
    chosen = sorted(largest.items(), key=lambda item: -item[1])[:_SHOWN]
    rows = [(module, phase, format_bytes(peak)) for (phase, module), peak in chosen]
    return build_table("fullest modules", ["module", "phase"], ["memory"], rows)


def _largest(plan: MemoryPlan) -> Table:
    """Tensors of one kind, shape and dtype on one line, with the name of the first."""
    alike: dict[tuple[str, tuple[int, ...], str], list[LiveTensor]] = {}
    for tensor in plan.at_peak:
        alike.setdefault((tensor.kind, tensor.shape, tensor.dtype), []).append(tensor)
    groups = sorted(alike.values(), key=lambda group: -_sum(group))
    rows = [_row(group) for group in groups[:_SHOWN]]
    rest = [tensor for group in groups[_SHOWN:] for tensor in group]
    if rest:
        rows.append((f"{len(rest)} more", "", "", "", format_bytes(_sum(rest))))
    return build_table("largest tensors at the peak", ["kind", "shape", "dtype", "name of the first"], ["memory"], rows)


def _row(group: list[LiveTensor]) -> tuple[str, ...]:
    first = group[0]
    shape = "x".join(map(str, first.shape)) or "one number"
    count = f"{len(group)} x " if len(group) > 1 else ""
    return first.kind, count + shape, first.dtype, first.name, format_bytes(_sum(group))


def _sum(tensors: list[LiveTensor]) -> int:
    return sum(tensor.bytes for tensor in tensors)
