"""`halfwave plan RECIPE`: will it fit, how fast will it be, and is half precision safe, before anything is run.

`halfwave plan --auto RUN` chooses the formats of a trained model, see `plan_auto`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from tyro.conf import Positional

from halfwave.commands.choosing import choose
from halfwave.commands.common import ReadingOptions, as_usage, log_console, parse_pairs, results_console
from halfwave.commands.plan_auto import AutoPlan
from halfwave.commands.recipe_defaults import batch_of, resolution_of
from halfwave.errors import UsageError
from halfwave.numerics import default_half, memory_bytes
from halfwave.planner import (
    Clock,
    PaperRow,
    PolicyVerdict,
    Roofline,
    ScaleOut,
    Stopwatch,
    format_bytes,
    get_device,
    judge,
    largest_side,
    mesh_workload,
    paper_tables,
    parse_bytes,
    scale_out,
)
from halfwave.precision import Policy
from halfwave.recipes import get_recipe, recipes
from halfwave.tables import build_table

PLAN_COLUMNS = ("policy", "verdict", "memory", "max batch", "time", "rounding", "grid")


@dataclass
class Plan(ReadingOptions):
    """Memory, largest batch, time and precision of each policy, before a run."""

    recipe: Positional[str] = ""
    """A recipe (darcy, darcy-paper, ...), a family (fno, tfno, sfno, unet) with --data, or a run directory; with --auto
    a run directory or a model file."""
    data: Path | None = None
    """Plan for the fields of this file; by default those of the recipe, or with --auto of the run."""
    batch: int | None = None
    """Samples of a batch; by default the recipe's."""
    grid: str | None = None
    """Points a side, or with --mesh along each axis (1024x1024x1024); by default the recipe's."""
    mesh: str | None = None
    """Plan many devices: data=64,grid=8 for 64 groups with other samples, of 8 devices each, which share every field.
    Without a recipe an FNO with 64 channels, 4 layers and 32 modes along each axis of --grid."""
    precision: str = "mixed"
    """With --mesh: the policy."""
    optimizer: str = "adamw"
    """With --mesh: adamw, adamw_pair, adamw_pair_bf16 or adamw_pair_8bit."""
    device: str = "rtx-3090-ti"
    """A device of the table of peak rates: rtx-3090-ti (the paper's), a100-40gb, h100-sxm, v100, ..."""
    device_memory: str | None = None
    """Memory of the device, such as 24GiB; by default that of the table."""
    measure: bool = False
    """Plan for this machine, with operators measured on it (eager), in place of a device of the table."""
    dtype: str | None = None
    """What half means: fp16 or bf16; by default what the device does fast."""
    recompute: bool = False
    """Blocks recompute their activations."""
    arguments: tuple[str, ...] = ()
    """Arguments of the model to change, as KEY=VALUE: hidden_channels=64 n_modes=[32,32]."""
    json: bool = False
    """Print JSON in place of the table."""
    paper: bool = False
    """The paper's memory tables from plans at its own sizes, beside its figures (no recipe)."""
    auto: bool = False
    """Choose a format for each layer and stage of a trained model, by one of the limits below or by its test error."""
    max_error: float | None = None
    """With --auto: relative L2 error of an answer that rounding may make; least bytes for it."""
    max_bytes: str | None = None
    """With --auto: what may be stored for a sample, such as 3MB; least error for it."""
    max_time: float | None = None
    """With --auto: time of a forward pass relative to full precision; least error for it."""
    out: Path | None = None
    """With --auto: file for the plan, which `halfwave train --policy` takes."""

    @classmethod
    def known(cls, call: Plan | None) -> dict[str, Any]:
        """Batch and grid of the recipe that is named, and what the device has."""
        if call is None:
            return {}
        device = get_device(call.device)
        known: dict[str, Any] = {"device_memory": format_bytes(device.memory), "dtype": default_half(device.kind).name}
        if call.recipe in [recipe.name for recipe in recipes()]:
            recipe = get_recipe(call.recipe)
            known |= {"batch": batch_of(recipe), "grid": resolution_of(recipe), "arguments": recipe.arguments}
        return known

    def run(self) -> None:
        if self.auto:
            limits = self.max_error, self.max_bytes, self.max_time
            AutoPlan(Path(self.recipe), self.data, self, *limits, self.out, self.json).run()
            return
        for name in ("max_error", "max_bytes", "max_time", "out"):
            if getattr(self, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} belongs to --auto: halfwave plan --auto RUN")
        if self.paper:
            self._paper()
            return
        if self.mesh is not None:
            if self.data is not None:
                raise UsageError("--mesh plans for a recipe or for --grid: leave --data out")
            self._mesh(self.mesh)
            return
        recipe = choose(self.recipe, self.data, self).recipe
        batch = batch_of(recipe) if self.batch is None else self.batch
        if batch < 1:
            raise UsageError(f"--batch must be at least 1, got {batch}")
        kind, memory, clock, name = self._target()
        found = as_usage(
            lambda: list(
                judge(
                    recipe,
                    batch,
                    self._side(),
                    memory,
                    kind,
                    clock,
                    arguments=parse_pairs(self.arguments, "--arguments"),
                    dtype=self.dtype,
                    recompute=self.recompute,
                )
            )
        )
        if self.json:
            print(json.dumps(self._record(batch, kind, name, memory, clock, found), indent=2))
            return
        title = f"{recipe.name}, batch {batch} on {name} ({format_bytes(memory)})"
        console = results_console()
        console.print(plan_table(found, title))
        console.print(
            f"memory: live tensors at the peak. The device also needs its context, workspaces and a margin "
            f"({format_bytes(found[0].needed_bytes - found[0].peak_bytes)} for {found[0].policy}), which the largest "
            f"batch and the verdict count.\n"
            f"{self._assumed(name)}\n"
            f"time: of a step, beside one in full precision; {clock.describe()}, eager.\n"
            f"rounding, grid: of one Fourier coefficient, relative to max |v|: a bound on rounding in the transform, "
            f"and what the grid costs the worst field with Lipschitz constant 2 max |v|. Smooth fields lose less to "
            f"the grid: where rounding matters, measure it on data (halfwave.certify)."
        )

    def _side(self) -> int | None:
        if self.grid is None or self.grid.isdigit():
            return None if self.grid is None else int(self.grid)
        raise UsageError(f"--grid must be points a side, such as 128, got {self.grid!r} (AxBxC is for --mesh)")

    def _mesh(self, mesh: str) -> None:
        device = as_usage(lambda: get_device(self.device))
        memory = device.memory if self.device_memory is None else self._memory(self.device_memory)
        work = as_usage(lambda: mesh_workload(self.recipe, self.grid, parse_pairs(self.arguments, "--arguments")))
        options: Any = {
            "policy": self._policy(device.kind), "optimizer": self.optimizer, "recompute": self.recompute,
        }  # fmt: skip
        found = as_usage(lambda: scale_out(work, mesh, device, self.batch, options))
        side = as_usage(lambda: largest_side(work, mesh, device.kind, memory, options))
        if self.json:
            print(json.dumps(found.to_dict() | {"memory_bytes": memory, "largest_side": side}, indent=2))
            return
        console = results_console()
        console.print(str(found.plan))
        fits = "fits" if found.plan.needed_bytes <= memory else "does not fit"
        console.print(
            f"it {fits} into {format_bytes(memory)}; the largest grid that does on {mesh}, one sample a group, has "
            f"{side} points a side"
        )
        console.print(scaling_table(found))
        console.print(found.crossover())

    def _policy(self, kind: str) -> Policy:
        return as_usage(lambda: Policy.named(self.precision, self.dtype, device=kind))

    def _assumed(self, name: str) -> str:
        """Which device the plan is for, and how to ask for another."""
        if self.measure:
            return "device: this machine, with operators measured on it."
        own = type(self).device == self.device
        others = "--device NAME plans for another, --measure for this machine"
        return f"device: assumed to be {name}{', as none was named' if own else ''}; {others}."

    def _target(self) -> tuple[str, int, Clock, str]:
        """Kind of device, its memory, its clock and its name."""
        if not self.measure:
            device = as_usage(lambda: get_device(self.device))
            given = self.device_memory
            return device.kind, device.memory if given is None else self._memory(given), Roofline(device), device.name
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        present = torch.cuda.mem_get_info()[1] if kind == "cuda" else memory_bytes()
        memory = present if self.device_memory is None else self._memory(self.device_memory)
        return kind, memory, Stopwatch(kind), "this machine"

    @staticmethod
    def _memory(given: str) -> int:
        return as_usage(lambda: parse_bytes(given))

    def _record(
        self, batch: int, kind: str, name: str, memory: int, clock: Clock, found: list[PolicyVerdict]
    ) -> dict[str, Any]:
        return {
            "recipe": self.recipe,
            "batch": batch,
            "grid": self.grid,
            "device": kind,
            "device_name": name,
            "memory_bytes": memory,
            "clock": clock.describe(),
            "policies": [verdict.to_dict() for verdict in found],
        }

    def _paper(self) -> None:
        rows: list[PaperRow] = []
        log = log_console()
        for row in paper_tables():
            if not rows or rows[-1].table != row.table:
                log.print(f"planning the paper's table of {row.table}", soft_wrap=True)
            rows.append(row)
        if self.json:
            print(json.dumps([row.to_dict() for row in rows], indent=2))
            return
        console = results_console()
        for name in dict.fromkeys(row.table for row in rows):
            console.print(paper_table(name, [row for row in rows if row.table == name]))
        for reason in dict.fromkeys(row.reason for row in rows):
            which = ", ".join(dict.fromkeys(f"{row.table} of {row.dataset}" for row in rows if row.reason == reason))
            console.print(f"{which}: {reason}")


def scaling_table(found: ScaleOut) -> Table:
    """One row for each number of devices that share a field."""
    rows = [
        (
            "x".join(map(str, plan.grid)),
            plan.mesh,
            format_bytes(plan.needed_bytes),
            format_bytes(plan.sent_bytes),
            f"{plan.compute_seconds:.3g} s",
            f"{plan.network_seconds:.3g} s",
        )
        for plan in (*found.strong, *found.weak)
    ]
    title = "strong scaling (one grid), then weak (as many points a device)"
    return build_table(title, ["grid", "mesh"], ["needs", "sends", "compute", "network"], rows)


def plan_table(found: list[PolicyVerdict], title: str) -> Table:
    """One row for each policy."""
    return build_table(title, PLAN_COLUMNS[:2], PLAN_COLUMNS[2:], plan_rows(found))


def plan_rows(found: list[PolicyVerdict]) -> list[tuple[str, ...]]:
    """The cells of `PLAN_COLUMNS` for each policy."""
    return [
        (
            row.policy,
            row.verdict,
            format_bytes(row.peak_bytes),
            str(row.largest_batch),
            beside_full(row.relative_time),
            f"{row.precision_error:.1e}",
            f"{row.grid_error:.1e}",
        )
        for row in found
    ]


def beside_full(relative_time: float) -> str:
    """A time relative to that of full precision, in words: above 1 is slower."""
    if abs(relative_time - 1) < 0.005:
        return "1.00x"
    return f"{relative_time:.2f}x slower" if relative_time > 1 else f"{1 / relative_time:.2f}x faster"


def paper_table(name: str, rows: list[PaperRow]) -> Table:
    """The paper's figures and the planned ones, in MB and relative to the reference of the table."""
    title = f"{name}: MB, and relative to {rows[0].reference}"
    cells = [
        (
            row.dataset,
            row.setting,
            "-" if row.paper_mb is None else f"{row.paper_mb:.0f}",
            "-" if row.paper_ratio is None else f"{row.paper_ratio:.2f}",
            f"{row.planned_mb:.0f}",
            f"{row.planned_ratio:.2f}",
        )
        for row in rows
    ]
    return build_table(title, ["dataset", "setting"], ["paper", "relative", "planned", "relative"], cells)
