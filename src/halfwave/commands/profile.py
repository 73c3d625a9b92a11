"""`halfwave profile RECIPE`: where the time and the memory of a training step go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from tyro.conf import Positional

from halfwave.commands.choosing import choose
from halfwave.commands.common import ReadingOptions, as_usage, log_console, results_console
from halfwave.commands.recipe_defaults import batch_of, default_device, default_dtype, resolution_of
from halfwave.commands.traffic import describe_traffic, plan_step_traffic
from halfwave.errors import InputError, UsageError
from halfwave.files import make_directory, write_json
from halfwave.measure import TrainingStep, profile_step
from halfwave.precision import Policy
from halfwave.recipes import get_recipe, recipes
from halfwave.report import draw_profile
from halfwave.tables import build_table
from halfwave.training import build_recipe_step

_ROWS = 12


@dataclass
class Profile(ReadingOptions):
    """Where the time and the memory of a training step go, by part, module and kernel."""

    recipe: Positional[str]
    """Name of a recipe (demo, darcy, ...), a family (fno, tfno, sfno, gino, unet) with --data, or a run directory."""
    data: Path | None = None
    """Profile with the fields or clouds of this file; by default those of the recipe."""
    precision: str = "mixed"
    """full, amp, half, mixed."""
    dtype: str | None = None
    """What half means: fp16, bf16, ...; by default what the device does fast."""
    batch: int | None = None
    """Samples of a step; by default the recipe's."""
    grid: int | None = None
    """Points a side (latitudes on the sphere); by default the recipe's."""
    steps: int = 3
    """Steps that are profiled, after two that are not."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes cuda where there is one."""
    mesh: str | None = None
    """Also count what a step would send on a mesh, such as grid=4 or data=2,grid=2."""
    out: Path | None = None
    """Directory of profile.json, profile.png and trace.json; by default profiles/RECIPE-PRECISION."""

    @classmethod
    def known(cls, call: Profile | None) -> dict[str, Any]:
        """Batch and grid of the recipe that is named, and where the profile goes."""
        if call is None:
            return {}
        known: dict[str, Any] = {"device": f"auto, {default_device()} here", "dtype": default_dtype()}
        if call.recipe in [recipe.name for recipe in recipes()]:
            recipe = get_recipe(call.recipe)
            out = Path("profiles") / f"{recipe.name}-{call.precision}"
            known |= {"batch": batch_of(recipe), "grid": resolution_of(recipe), "out": out}
        return known

    def run(self) -> None:
        choice = choose(self.recipe, self.data, self)
        recipe = choice.recipe
        device = as_usage(self._device)
        policy = as_usage(lambda: Policy.named(self.precision, dtype=self.dtype, device=device))
        for name in ("batch", "grid", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be at least 1, got {value}")
        step = build_recipe_step(
            recipe, precision=policy, batch=self.batch, grid=self.grid, device=device, dataset=choice.dataset
        )
        traffic = None if self.mesh is None else as_usage(lambda: self._traffic(step, policy))
        out = make_directory(self.out or Path("profiles") / f"{recipe.name}-{policy.name}")
        log_console().print(
            f"profiling {self.steps} steps of {recipe.name} in {policy.name} on {device}", soft_wrap=True
        )
        result = profile_step(step, self.steps, out / "trace.json")
        result |= {} if traffic is None else {"traffic": traffic}
        write_json(out / "profile.json", result)
        draw_profile(out / "profile.json", out / "profile.png")
        console = results_console()
        for table in profile_tables(result):
            console.print(table)
        memory, share = result["memory"], {row["name"]: row["share"] for row in result["parts"]}
        console.print(
            f"spectral convolutions {_percent(result['spectral_share'])} of the time (complex contraction "
            f"{_percent(share['contraction'])}), copies and casts everywhere {_percent(share['copies and casts'])}",
        )
        console.print(
            f"{1e3 * result['seconds']:.4g} ms a step; peak {memory['peak_bytes'] / 1e6:.4g} MB, of which "
            f"{memory['held_bytes'] / 1e6:.4g} MB are weights, optimizer state and batch",
        )
        if traffic is not None:
            console.print(describe_traffic(traffic))
        console.print(f"picture: {out / 'profile.png'}, Chrome trace: {out / 'trace.json'}", soft_wrap=True)

    def _traffic(self, step: TrainingStep, policy: Policy) -> dict[str, Any]:
        assert self.mesh is not None
        x = step.batch[0]
        shape = tuple(x.shape) if isinstance(x, torch.Tensor) else ()
        if not shape:
            raise InputError("--mesh shares fields on a grid, and this recipe has point clouds")
        return plan_step_traffic(step.model, shape, self.mesh, policy)

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device(default_device())
        try:
            device = torch.device(self.device)
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError) as error:  # AssertionError: a build of torch without CUDA
            raise UsageError(f"device {self.device!r} is not there: {str(error).splitlines()[0]}") from error
        return device


def profile_tables(result: dict[str, Any]) -> list[Table]:
    """By part, by module and by kernel; times are per step, without those of the parts inside."""
    parts = [(row["name"], _ms(row["seconds"]), _percent(row["share"])) for row in result["parts"]]
    modules = [
        (row["name"], _ms(row["forward"]), _ms(row["backward"]), _percent(row["share"]))
        for row in _shortened(result["modules"], ("forward", "backward", "share"))
    ]
    kernels = [
        (
            row["name"][:44],
            _count(row.get("calls")),
            _ms(row["seconds"]),
            _percent(row["share"]),
        )
        for row in _shortened(result["kernels"], ("seconds", "share"))
    ]
    return [
        build_table("by part", [""], ["ms", "share"], parts),
        build_table("by module", [""], ["forward ms", "backward ms", "share"], modules),
        build_table("by kernel", [""], ["calls", "ms", "share"], kernels),
    ]


def _shortened(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The largest rows, and one for the rest."""
    if len(rows) <= _ROWS:
        return rows
    rest = {key: sum(row[key] for row in rows[_ROWS:]) for key in keys}
    return [*rows[:_ROWS], {"name": f"{len(rows) - _ROWS} others", **rest}]


def _count(calls: float | None) -> str:
    return "" if calls is None else f"{calls:.0f}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"


def _percent(share: float) -> str:
    return f"{share:.1%}"
