"""plan_mesh: a training step on many devices: bytes of each, bytes that each sends, time by compute and by network.

One process of the mesh, the first, which has the largest piece, runs its step on `meta` with `parallelize`d layers: its
memory, operators and exchanges are counted as those of a real process are, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from typing import Any

from torch import nn

from halfwave.errors import InputError
from halfwave.parallel import GridLayout, MeshShape, Ranks, count_wire, parallelize, plan_traffic
from halfwave.planner.cost import cost_of
from halfwave.planner.memory import plan_memory, planned_policy
from halfwave.planner.meta_step import Loss, MetaStep
from halfwave.planner.network import Network, network_of
from halfwave.planner.roofline import Device, Roofline
from halfwave.planner.sizes import format_bytes
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv

_STEP = 8
"""Sides of grids that are tried are multiples of it."""


@dataclass(frozen=True)
class MeshPlan:
    """One training step of one process.

    Attributes:
        mesh, grid, batch: what was planned; `batch` samples over all groups.
        piece: the grid of the process.
        peak_bytes, needed_bytes: of live tensors, and with what the device needs beside them (see `MemoryPlan`).
        sent: bytes that it sends, by purpose: modes, gradients, sums, grid.
        transposes: bytes that the transposes of FFTs would send in place of the modes.
        compute_seconds, network_seconds: at peak rates, one after the other.
        rates: where the rates are from.
    """

    mesh: str
    grid: tuple[int, ...]
    batch: int
    piece: tuple[int, ...]
    peak_bytes: int
    needed_bytes: int
    sent: dict[str, int]
    transposes: int
    compute_seconds: float
    network_seconds: float
    rates: tuple[str, ...]

    @property
    def sent_bytes(self) -> int:
        return sum(self.sent.values())

    @property
    def seconds(self) -> float:
        return self.compute_seconds + self.network_seconds

    @property
    def dominated(self) -> bool:
        """Whether the network takes longer than the devices."""
        return self.network_seconds > self.compute_seconds

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": self.seconds, "sent_bytes": self.sent_bytes}

    def __str__(self) -> str:
        size, piece = ("x".join(map(str, shape)) for shape in (self.grid, self.piece))
        modes = self.sent.get("modes", 0)
        beside = f", {modes / self.transposes:.2g} of the transposes of FFTs" if self.transposes else ""
        lines = [
            f"one training step of {self.batch} samples of {size} points on {self.mesh}, pieces of {piece}",
            f"  bytes of a device   {format_bytes(self.peak_bytes):>10} live, {format_bytes(self.needed_bytes)} needed",
            f"  bytes it sends      {format_bytes(self.sent_bytes):>10}: modes {format_bytes(modes)}{beside}, "
            f"gradients {format_bytes(self.sent.get('gradients', 0))}",
            f"  time                {self.seconds:>9.3g}s: compute {self.compute_seconds:.3g}, "
            f"network {self.network_seconds:.3g}",
            *(f"  {sentence}" for sentence in self.rates),
        ]
        return "\n".join(lines)


def plan_mesh(
    model: nn.Module,
    grid: tuple[int, ...],
    mesh: MeshShape | str,
    *,
    channels: int,
    batch: int | None = None,
    device: Device | str = "cpu",
    policy: str | Policy | None = None,
    optimizer: str = "adamw",
    recompute: bool = False,
    loss: Loss | None = None,
) -> MeshPlan:
    """Plan a training step of a model (which may be on `meta`) on a mesh.

    Args:
        model, grid, channels: the model, the whole grid, and the channels of its input.
        mesh: such as ``"data=64,grid=8"``.
        batch: samples of all groups together; by default one for each.
        device: of the table (`get_device`), or a kind, ``"cpu"`` or ``"cuda"``, whose time is not planned.
        policy, optimizer, recompute, loss: as in `plan_memory`.
    """
    shape = MeshShape.parse(mesh) if isinstance(mesh, str) else mesh
    total = shape.data if batch is None else batch
    if total < 1:
        raise InputError(f"a batch of {total} samples is none: expected at least 1")
    kind = device if isinstance(device, str) else device.kind
    prepare, inputs = _process(shape, tuple(grid), total, channels)
    options: Any = {"policy": policy, "optimizer": optimizer, "recompute": recompute, "loss": loss, "prepare": prepare}
    memory = plan_memory(model, inputs, device=kind, **options)
    step = MetaStep(model, inputs, planned_policy(policy, kind), optimizer, recompute, kind, loss, prepare)
    clock = Roofline(device) if isinstance(device, Device) else None
    with count_wire() as wire:
        costs = () if clock is None else cost_of(step, clock)
        if clock is None:
            step.run()
    compute, network = sum(cost.seconds for cost in costs), 0.0
    rates: tuple[str, ...] = ()
    if clock is not None:
        links = network_of(clock.device)
        network = _network_seconds(wire.sent, wire.calls, shape, links)
        rates = (f"compute: {clock.describe()}", f"network: {links.describe()}")
    transposes = sum(plan_traffic(conv, grid, inputs[0]).transposes for conv in _convs(step.model))
    return MeshPlan(
        str(shape), tuple(grid), total, inputs[2:], memory.peak_bytes, memory.needed_bytes, dict(wire.sent), transposes,
        compute, network, rates,
    )  # fmt: skip


def largest_grid(
    model: nn.Module, dim: int, mesh: MeshShape | str, memory: int, *, channels: int, kind: str = "cuda", **options: Any
) -> int:
    """The largest side N, a multiple of 8, of a grid N^dim of which one sample a group fits into `memory`; 0 if none.

    `options` are those of `plan_memory`.
    """
    shape = MeshShape.parse(mesh) if isinstance(mesh, str) else mesh
    known: dict[int, int] = {}

    def needed(side: int) -> int:
        if side not in known:
            prepare, inputs = _process(shape, (side,) * dim, shape.data, channels)
            known[side] = plan_memory(model, inputs, device=kind, prepare=prepare, **options).needed_bytes
        return known[side]

    least = -(-max(shape.grid) // _STEP) * _STEP
    if needed(least) > memory:
        return 0
    # Fields grow as N^dim and everything else hardly: a guess from there is steps away from the answer.
    side = 8 * least
    side = max(least, _multiple(side * (memory / needed(side)) ** (1 / dim)))
    while needed(side + _STEP) <= memory:
        side += _STEP
    while side > least and needed(side) > memory:
        side -= _STEP
    return side


def _multiple(side: float) -> int:
    return int(side) // _STEP * _STEP


def _process(
    shape: MeshShape, grid: tuple[int, ...], batch: int, channels: int
) -> tuple[Callable[[nn.Module], nn.Module], tuple[int, ...]]:
    """What makes a model that of the first process, and the shape of its input."""
    layout = _layout(shape, grid)
    prepare = partial(parallelize, mesh=layout, data=Ranks(shape.data, 0))
    return prepare, (-(-batch // shape.data), channels, *layout.piece_of(grid).grid)


def _layout(shape: MeshShape, grid: tuple[int, ...]) -> GridLayout:
    if len(shape.grid) > len(grid):
        raise InputError(f"mesh {shape} shares {len(shape.grid)} axes of a grid with {len(grid)}")
    layout = GridLayout.planned(shape.grid, shape.axes, tuple(grid))
    try:
        layout.piece_of(tuple(grid))
    except ValueError as error:
        raise InputError(str(error)) from None
    return layout


def _network_seconds(sent: dict[str, int], calls: dict[str, int], shape: MeshShape, network: Network) -> float:
    """Exchanges within a group by its links, gradients by those between groups; none overlaps with anything."""
    group = prod(shape.grid)
    seconds = sum(calls.values()) * network.latency
    for purpose, nbytes in sent.items():
        devices = shape.processes if purpose == "gradients" else group
        seconds += nbytes / network.rate(devices)
    return seconds


def _convs(model: nn.Module) -> list[SpectralConv]:
    return [module for module in model.modules() if isinstance(module, SpectralConv)]
