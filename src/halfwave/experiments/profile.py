"""profile: where the time of a training step goes, by part and by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.measure import PROFILE_PARTS, profile_step
from halfwave.precision import Policy
from halfwave.recipes import HALF, Recipe, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict
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
# Parts that work on spectra, or make them.
SPECTRAL = ("transforms", "contraction", "rest of spectral conv")
COPIES = "copies and casts"


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


def summarise(rows: list[Row]) -> Summary:
    parts = {(row["method"], row["name"]): row for row in rows if row["kind"] == "part"}
    totals = {row["method"]: row for row in rows if row["kind"] == "total"}
    lines = [Line((m, "all spectral convolutions"), (None, None), _figures(row)) for m, row in totals.items()]
    lines += [Line((row["method"], row["name"]), (None, None), _figures(row)) for row in parts.values()]
    bars = tuple(
        Series(method, PROFILE_PARTS, tuple(100 * parts[method, part]["share"] for part in PROFILE_PARTS), "bars")
        for method in METHODS
    )
    return Summary(
        Comparison(("method", "part"), ("time of a step, ms", "share, %"), tuple(lines)),
        (Panel("where the time of a step goes", "", "% of a step", bars), _kernel_panel(rows)),
        Verdict(_checks(totals, parts)),
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


def _checks(totals: Mapping[str, Row], parts: Mapping[tuple[str, str], Row]) -> tuple[Check, ...]:
    baseline = next(iter(METHODS))
    shares = {method: 100 * row["share"] for method, row in totals.items()}
    largest = max(PROFILE_PARTS, key=lambda part: parts[baseline, part]["share"])
    share = 100 * parts[baseline, largest]["share"]
    others = ", ".join(f"{method} {shares[method]:.0f}%" for method in METHODS if method != baseline)
    return (
        Check(
            shares[baseline] > 50,
            f"spectral convolutions take {shares[baseline]:.0f}% of a step in full precision with FFTs ({others})",
        ),
        Check(largest in (*SPECTRAL, COPIES), f"the largest part of it is {largest} ({share:.0f}%)"),
    )


EXPERIMENT = Experiment(
    name="profile",
    source="Figure 'runtime breakdown of FNO training', appendix 'FNO Profiling'",
    question="Where does the time of a training step go?",
    claim="Spectral convolutions account for most of the runtime of full precision.",
    measures=(
        Measure("kind", "total, part or kernel"),
        Measure("name", "what it is; of kernels the most costly", timing=True),
        Measure("share", "of the time of a step", timing=True),
        Measure("seconds", "a step", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
)
