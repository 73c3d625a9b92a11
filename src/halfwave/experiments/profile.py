"""profile: where the time of a training step goes, by part and by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from halfwave.experiments.claims import NEEDS_GPU, Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.measure import PROFILE_PARTS, profile_step
from halfwave.precision import Policy
from halfwave.recipes import HALF, Recipe, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import build_recipe_step

# The paper shows pictures without shares: spectral convolutions take most of the time of full precision, and of its
# five most costly kernels four are of complex numbers.
# Policy and backend; the first is the paper's baseline.
METHODS: Mapping[str, tuple[str, str]] = {
    "full, fft": ("full", "fft"),
    "full, gemm": ("full", "gemm"),
    "mixed, gemm": ("mixed", "gemm"),
}
STEPS: Mapping[Scale, int] = {"smoke": 1, "small": 4, "paper": 10}
KERNELS = 5


@dataclass(frozen=True)
class Profiled:
    """Training steps of an FNO for Navier-Stokes under torch's profiler."""

    method: str
    steps: int
    recipe: Recipe


def configurations(scale: Scale) -> list[Profiled]:
    return [Profiled(name, STEPS[scale], _recipe(scale, backend)) for name, (_, backend) in METHODS.items()]


def _recipe(scale: Scale, backend: str) -> Recipe:
    """The paper's model; at small half of its channels and a batch of 4, as the share of each part is what counts."""
    if scale == "small":
        paper = problem("navier-stokes", "paper")
        arguments = {"n_modes": [64, 64], "hidden_channels": 32, "n_layers": 4, "backend": backend}
        return replace(paper, name="navier-stokes-profile", arguments=arguments, training={"batch_size": 4})
    recipe = problem("navier-stokes", scale)
    return replace(recipe, arguments={**recipe.arguments, "backend": backend})


def measure(profiled: Profiled, lab: Lab) -> list[dict[str, Any]]:
    policy = Policy.named(METHODS[profiled.method][0], HALF)
    found = profile_step(build_recipe_step(profiled.recipe, precision=policy), profiled.steps)
    rows = [{"kind": "total", "name": "spectral convolutions", "share": found["spectral_share"],
             "seconds": found["seconds"] * found["spectral_share"]}]  # fmt: skip
    for kind, entries in (("part", found["parts"]), ("kernel", found["kernels"][:KERNELS])):
        rows += [{"kind": kind, **{key: entry[key] for key in ("name", "seconds", "share")}} for entry in entries]
    return rows


def exhibit(rows: list[Row]) -> Exhibit:
    parts = {(row["method"], row["name"]): row for row in rows if row["kind"] == "part"}
    totals = {row["method"]: row for row in rows if row["kind"] == "total"}
    lines = [Line((m, "all spectral convolutions"), (None, None), _figures(row)) for m, row in totals.items()]
    lines += [Line((row["method"], row["name"]), (None, None), _figures(row)) for row in parts.values()]
    bars = tuple(
        Series(method, PROFILE_PARTS, tuple(100 * parts[method, part]["share"] for part in PROFILE_PARTS), "bars")
        for method in METHODS
    )
    return Exhibit(
        Comparison(("method", "part"), ("time of a step, ms", "share, %"), tuple(lines)),
        (Panel("where the time of a step goes", "", "% of a step", bars), _kernel_panel(rows)),
        (
            "The time of an event counts without that of the events inside it; the backward pass belongs to the part "
            "whose forward pass made it. Copies inside spectral convolutions are among the copies here, and among the "
            "spectral convolutions in their sum.",
            *(f"Most costly kernels of {method}: {_kernels(rows, method)}." for method in METHODS),
        ),
    )


def _figures(row: Row) -> tuple[float, float]:
    return 1e3 * row["seconds"], 100 * row["share"]


def _kernels(rows: list[Row], method: str) -> str:
    own = [row for row in rows if row["kind"] == "kernel" and row["method"] == method]
    return ", ".join(f"{row['name'].removeprefix('aten::')} {100 * row['share']:.0f}%" for row in own)


def _kernel_panel(rows: list[Row]) -> Panel:
    """Of the paper's baseline."""
    baseline = next(iter(METHODS))
    own = [row for row in rows if row["kind"] == "kernel" and row["method"] == baseline]
    names = tuple(row["name"].removeprefix("aten::") for row in own)
    bars = Series(baseline, names, tuple(100 * row["share"] for row in own), "bars")
    return Panel(f"most costly kernels, {baseline}", "", "% of a step", (bars,))


def _check_share(rows: list[Row]) -> Outcome:
    shares = {row["method"]: 100 * row["share"] for row in rows if row["kind"] == "total"}
    baseline, *others = METHODS
    beside = ", ".join(f"{method} {shares[method]:.0f}%" for method in others)
    clause = f"spectral convolutions take {shares[baseline]:.0f}% of a step in full with FFTs on this CPU ({beside})"
    return Outcome.of(shares[baseline] > 50, clause)


PARTS = (
    Part(
        "complex-valued operations are the majority of the runtime on an RTX 3090 Ti",
        "majority",
        1219,
        reason=NEEDS_GPU,
    ),
    Part("4 of the 5 most costly kernels are of complex numbers", "4 of 5", 1227, reason=NEEDS_GPU),
    Part(
        "on this CPU spectral convolutions are the majority of a step in full precision with FFTs", check=_check_share
    ),
)
EXPERIMENT = Experiment(
    name="profile",
    source="Figure 'runtime breakdown of FNO training', appendix 'FNO Profiling'",
    question="Where does the time of a training step go?",
    claim="Spectral convolutions account for most of the runtime of full precision.",
    parts=PARTS,
    measures=(
        Measure("kind", "total, part or kernel"),
        Measure("name", "what it is; of kernels the most costly", timing=True),
        Measure("share", "of the time of a step", timing=True),
        Measure("seconds", "a step", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
)
