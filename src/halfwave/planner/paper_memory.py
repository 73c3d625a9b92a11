"""The paper's memory tables from plans at the paper's own sizes, beside the paper's figures.

Models, grids and batches are those of the recipes at the paper's scale (`recipes.paper` says which of them the paper
states); bodies are a parametric car and a standard Ahmed body. All models contract in the order that they do by default
(fewest operations), but where a table is about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfwave.data import STANDARD_AHMED, Ahmed, Car, LoftedBody, ahmed_body, car_body, full_mesh, mesh_size
from halfwave.errors import InputError
from halfwave.models import GraphCache, build_model
from halfwave.planner.memory import plan_memory
from halfwave.planner.workload import Workload, recipe_workload
from halfwave.precision import NAMES, Policy
from halfwave.recipes import (
    BLOCK_MB,
    HALF,
    METHOD_MB,
    OPTION_MB,
    PATH_MB,
    PROBLEMS,
    SAVED,
    UNET_PROBLEMS,
    WEIGHTS_MB,
    Recipe,
    get_recipe,
)
from halfwave.spectral import ComplexMode, FactorizedWeight, Objective

_MB = 10**6

_OURS_KEEPS_LESS = (
    "a block of ours keeps its input, K v and the truncated spectrum and makes the rest again; the authors' code keeps "
    "every intermediate, and their figure holds the CUDA context and cached blocks too"
)
_ONE_AT_A_TIME = (
    "ours recomputes contractions, so the intermediates of one layer are alive at the peak, not those of all four"
)
_SLICED = (
    "messages of the graph kernels are made in slices and no domain padding is used: the paper's GINO holds all edges "
    "and pads the latent grid by an eighth"
)
_FIGURE_ONLY = "the paper gives this in a figure without numbers"


@dataclass(frozen=True)
class PaperRow:
    """One figure of the paper beside the planned one.

    `paper_mb` and `planned_mb` are megabytes (10^6 bytes); the ratios are to the row called `reference`. What the paper
    does not print is None.
    """

    table: str
    dataset: str
    setting: str
    reference: str
    paper_mb: float | None
    paper_ratio: float | None
    planned_mb: float
    planned_ratio: float
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def paper_workload(dataset: str, objective: Objective = "flops", complex_mode: ComplexMode = "C") -> Workload:
    """The paper's model on a dataset, on `meta`, and its inputs by batch."""
    recipe = _paper_recipe(dataset)
    work = recipe_workload(recipe) if recipe.domain.has_grid else _body_workload(recipe)
    for module in work.model.modules():
        if isinstance(module, FactorizedWeight):
            module.settings = replace(module.settings, objective=objective, complex_mode=complex_mode)
    return work


def paper_batch(dataset: str) -> int:
    """The batch of the paper's runs."""
    return int(_paper_recipe(dataset).training["batch_size"])


def _paper_recipe(dataset: str) -> Recipe:
    known = (*PROBLEMS, *(f"{name}-unet" for name in UNET_PROBLEMS))
    if dataset not in known:
        raise InputError(f"no dataset {dataset!r} in the paper: expected one of {', '.join(known)}")
    return get_recipe(f"{dataset}-paper")


TABLES = ("methods", "unet", "contraction", "path", "weights", "blocks")


def paper_tables(tables: tuple[str, ...] = TABLES) -> Iterator[PaperRow]:
    """The rows of the named tables, one by one as they are planned."""
    for name in tables:
        if name not in _TABLES:
            raise InputError(f"no table {name!r} of the paper's memory: expected one of {', '.join(TABLES)}")
        yield from _TABLES[name]()


def _methods() -> Iterator[PaperRow]:
    """Full, AMP, half and both, on five datasets: the paper's memory figure, and what its other tables say of it."""
    known_ratio = {(dataset, "mixed"): 1 - SAVED[dataset, "FNO"] / 100 for dataset in UNET_PROBLEMS}
    known_ratio |= {("darcy", "half"): METHOD_MB["darcy", "half"] / METHOD_MB["darcy", "full"]}
    known_ratio |= {(dataset, "full"): 1.0 for dataset in PROBLEMS}
    for dataset in PROBLEMS:
        reason = _OURS_KEEPS_LESS if get_recipe(dataset).domain.has_grid else _SLICED
        planned = {name: paper_peak(dataset, name) for name in NAMES}
        for name, peak in planned.items():
            figure = (dataset, name) in METHOD_MB or (dataset, name) in known_ratio
            yield PaperRow(
                "methods", dataset, name, "full",
                METHOD_MB.get((dataset, name)), known_ratio.get((dataset, name)),
                peak / _MB, peak / planned["full"], reason if figure else _FIGURE_ONLY,
            )  # fmt: skip


def _unet() -> Iterator[PaperRow]:
    """The U-Net with AMP against full precision."""
    reason = (
        "ours keeps the inputs of convolutions and norms alone, in half; the width of the paper's U-Net is not stated"
    )
    for dataset in UNET_PROBLEMS:
        ratio = 1 - SAVED[dataset, "UNet"] / 100
        work, batch = paper_workload(f"{dataset}-unet"), paper_batch(dataset)
        full, amp = (_peak(work, batch, Policy.named(name, HALF)) for name in ("full", "amp"))
        yield PaperRow("unet", dataset, "full", "full", None, 1.0, full / _MB, 1.0, reason)
        yield PaperRow("unet", dataset, "amp", "full", None, ratio, amp / _MB, amp / full, reason)


def _contraction() -> Iterator[PaperRow]:
    """Options A, B and C of complex contractions on Navier-Stokes."""
    reason = (
        "C multiplies the factors of the weights in complex fp32, which at this rank are larger than what B rounds; "
        + _ONE_AT_A_TIME
    )
    policy, batch = Policy.named("mixed", HALF), paper_batch("navier-stokes")
    modes: tuple[ComplexMode, ...] = ("A", "B", "C")
    planned = {mode: _peak(paper_workload("navier-stokes", "memory", mode), batch, policy) for mode in modes}
    for mode, peak in planned.items():
        yield PaperRow(
            "contraction", "navier-stokes", f"option {mode}", "option A",
            OPTION_MB[mode], OPTION_MB[mode] / OPTION_MB["A"], peak / _MB, peak / planned["A"], reason,
        )  # fmt: skip


def _path() -> Iterator[PaperRow]:
    """Memory-greedy against FLOP-optimal contraction paths of the 3-D models, and of the CP model for comparison."""
    settings: tuple[tuple[str, Objective], ...] = (("memory-greedy", "memory"), ("FLOP-optimal", "flops"))
    policy = Policy.named("mixed", HALF)
    batch = paper_batch("navier-stokes")
    peaks = [_peak(paper_workload("navier-stokes", objective), batch, policy) for _, objective in settings]
    for (name, _), peak in zip(settings, peaks, strict=True):
        yield PaperRow(
            "path", "navier-stokes", name, "FLOP-optimal",
            None, None, peak / _MB, peak / peaks[1], "the paper has this table for the 3-D models only",
        )  # fmt: skip
    for dataset, figures in PATH_MB.items():
        peaks = [_peak(paper_workload(dataset, objective), 1, policy) for _, objective in settings]
        for (name, _), figure, peak in zip(settings, figures, peaks, strict=True):
            yield PaperRow(
                "path", dataset, name, "FLOP-optimal",
                figure, figure / figures[1], peak / _MB, peak / peaks[1],
                "the peak is in the graph kernel at the output; contractions are smaller, as they are recomputed; "
                + _SLICED,
            )  # fmt: skip


def _weights() -> Iterator[PaperRow]:
    """Weights and inputs in half against weights alone."""
    for dataset, name in (("darcy", "half"), ("navier-stokes", "mixed")):
        both_mb, weights_mb = WEIGHTS_MB[dataset]
        both = Policy.named(name, HALF)
        work, batch = paper_workload(dataset), paper_batch(dataset)
        full_inputs = _peak(work, batch, both.with_(contraction="fp32"))
        halves = _peak(work, batch, both)
        reason = "with inputs in fp32 the contraction runs in fp32 here; " + _ONE_AT_A_TIME
        reference = "weights only"
        yield PaperRow(
            "weights", dataset, "weights and inputs", reference,
            both_mb, both_mb / weights_mb, halves / _MB, halves / full_inputs, reason,
        )  # fmt: skip
        yield PaperRow("weights", dataset, reference, reference, weights_mb, 1.0, full_inputs / _MB, 1.0, reason)


def _blocks() -> Iterator[PaperRow]:
    """The eight settings of the block ablation on Darcy: forward FFT, contraction, inverse FFT in full or half."""
    work, batch = paper_workload("darcy"), paper_batch("darcy")
    planned = {setting: _peak(work, batch, Policy.block(setting, HALF)) for setting in BLOCK_MB}
    for setting, figure in BLOCK_MB.items():
        yield PaperRow(
            "blocks", "darcy", setting, "FFF",
            figure, figure / BLOCK_MB["FFF"],
            planned[setting] / _MB, planned[setting] / planned["FFF"], _OURS_KEEPS_LESS,
        )  # fmt: skip


@lru_cache
def paper_peak(dataset: str, method: str) -> int:
    """Peak of one training step of the paper's model on a GPU; `dataset` is a problem, or "darcy-unet" and the like."""
    return _peak(paper_workload(dataset), paper_batch(dataset), Policy.named(method, HALF))


def _peak(work: Workload, batch: int, policy: Policy) -> int:
    return plan_memory(work.model, work.inputs(batch), policy=policy, device="cuda").peak_bytes


_TABLES: Mapping[str, Callable[[], Iterator[PaperRow]]] = {
    "methods": _methods,
    "unet": _unet,
    "contraction": _contraction,
    "path": _path,
    "weights": _weights,
    "blocks": _blocks,
}

# One search for neighbours serves all settings of a body.
_GRAPHS = GraphCache()


def _body_workload(recipe: Recipe) -> Workload:
    """The geometry and its distance are the only inputs."""
    with torch.device("meta"):
        model: Any = build_model(
            recipe.model, {"in_channels": 1, "out_channels": 1, "latent_feature_channels": 1, **recipe.arguments}
        )
    model.cache = _GRAPHS
    return Workload(model, partial(_body_inputs, recipe))


def _body_inputs(recipe: Recipe, batch: int) -> dict[str, Any]:
    """One body in the unit box: its surface points, the latent grid and the distance on it."""
    if batch != 1:
        raise InputError(f"the paper's {recipe.generator} model takes one geometry at a time, got a batch of {batch}")
    points = _surface(recipe.generator, recipe.parameters["points"])[None]
    side = recipe.training["latent_resolution"]
    axis = torch.linspace(0, 1, side)
    latent = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)[None]
    features = torch.empty((1, *(side,) * 3, 1), device="meta")
    return {"input_geom": points, "latent_queries": latent, "output_queries": points, "latent_features": features}


_BODIES: Mapping[str, Callable[[], LoftedBody]] = {
    Car.name: lambda: car_body(**Car().draw(0, "train", 0)),
    Ahmed.name: lambda: ahmed_body(**STANDARD_AHMED),
}


@lru_cache(maxsize=2)
def _surface(name: str, points: int) -> Tensor:
    rings, segments = mesh_size(points)
    vertices = full_mesh(_BODIES[name]().half_grid(rings, segments)).vertices
    low, high = vertices.min(0), vertices.max(0)
    return torch.from_numpy(((vertices - low) / (high - low).max()).astype(np.float32))
