"""Scaling as planned: the same grid on more devices (strong), and a grid that grows with them (weak)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from halfwave.errors import InputError
from halfwave.models import build_model
from halfwave.parallel import MeshShape
from halfwave.planner.mesh_plan import MeshPlan, largest_grid, plan_mesh
from halfwave.planner.roofline import Device
from halfwave.planner.workload import recipe_grid, recipe_workload
from halfwave.recipes import get_recipe

_MODES, _CHANNELS, _LAYERS = 32, 64, 4
_DOUBLINGS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class MeshWorkload:
    """A model on `meta`, the channels of its input, and a whole grid."""

    model: nn.Module
    channels: int
    grid: tuple[int, ...]


@dataclass(frozen=True)
class ScaleOut:
    """The plan that was asked for, and plans with other numbers of devices for each field."""

    plan: MeshPlan
    strong: tuple[MeshPlan, ...]
    weak: tuple[MeshPlan, ...]

    def crossover(self) -> str:
        """From how many devices on the network takes longer than the devices do."""
        first = next((plan for plan in self.strong if plan.dominated), None)
        if first is None:
            return f"communication does not dominate up to {self.strong[-1].mesh}"
        return f"communication dominates from {first.mesh} on"

    def to_dict(self) -> dict[str, Any]:
        plans = {name: [plan.to_dict() for plan in getattr(self, name)] for name in ("strong", "weak")}
        return {"plan": self.plan.to_dict(), **plans, "crossover": self.crossover()}


def mesh_workload(recipe: str, grid: str | None, arguments: Mapping[str, Any]) -> MeshWorkload:
    """The model of a recipe, or an FNO, on a grid such as 1024x1024x1024, or 128 points a side of a recipe's."""
    sides = None if grid is None else _sides(grid)
    if not recipe:
        if sides is None:
            raise InputError("a mesh without a recipe needs a grid: expected --grid AxB or a recipe")
        modes = [min(_MODES, side) for side in sides]
        own = {"n_modes": modes, "hidden_channels": _CHANNELS, "n_layers": _LAYERS, "in_channels": 1, "out_channels": 1}
        with torch.device("meta"):
            return MeshWorkload(build_model("FNO", own | dict(arguments)), 1, sides)
    chosen = get_recipe(recipe)
    side = sides[0] if sides is not None and len(sides) == 1 else None
    work = recipe_workload(chosen, side, arguments)
    own_grid = recipe_grid(chosen, side)
    if sides is not None and side is None:
        if len(sides) != len(own_grid):
            raise InputError(f"recipe {recipe!r} has {len(own_grid)} axes and --grid {grid} has {len(sides)}")
        own_grid = sides
    return MeshWorkload(work.model, work.inputs(1)[1], own_grid)


def scale_out(work: MeshWorkload, mesh: str, device: Device, batch: int | None, options: Mapping[str, Any]) -> ScaleOut:
    """The plan of a mesh; strong and weak scaling of its first shared axis, with one sample a group."""
    shape = MeshShape.parse(mesh)

    @cache
    def plan(devices: int, grid: tuple[int, ...], samples: int | None = None) -> MeshPlan:
        own = MeshShape(shape.data, (devices, *shape.grid[1:]))
        return plan_mesh(work.model, grid, own, channels=work.channels, batch=samples, device=device, **options)

    first, *others = work.grid
    counts = [n for n in _DOUBLINGS if n <= first]
    strong = tuple(plan(n, work.grid, batch) for n in counts)
    share = max(1, first // shape.grid[0])
    weak = tuple(plan(n, (share * n, *others), batch) for n in counts)
    return ScaleOut(plan(shape.grid[0], work.grid, batch), strong, weak)


def largest_side(work: MeshWorkload, mesh: str, kind: str, memory: int, options: Mapping[str, Any]) -> int:
    """Points a side of the largest grid of which a sample fits."""
    return largest_grid(work.model, len(work.grid), mesh, memory, channels=work.channels, kind=kind, **options)


def _sides(grid: str) -> tuple[int, ...]:
    parts = grid.split("x")
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"grid {grid!r} is none: expected points along 1 to 3 axes, such as 1024x1024x1024")
    return tuple(int(part) for part in parts)
