"""global-stabilizers: what acts after the forward pass cannot mend an overflow inside it.

Loss scaling, gradient clipping and delayed updates against tanh before the transform, all with a half-precision FFT: on
the paper's grid, on one on which it overflows, and the resolution from which it does; and with matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from halfwave.data import Dataset
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import select
from halfwave.experiments.overflow import half_training, on_paper_grid, raw_darcy
from halfwave.recipes import TITLES
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import Batch, build_engine, cut, epoch_order

# The paper draws loss and scale over batches and gives no numbers: what diverges in the first epoch.
PAPER = {"none": True, "loss scaling": True, "clipping": True, "delayed updates": True, "tanh": False}
METHODS: dict[str, dict[str, Any]] = {
    "none": {},
    "loss scaling": {"loss_scaling": True},
    "clipping": {"clip": 5.0},
    "delayed updates": {"accumulate": 3},
    "tanh": {"stabilizer": "tanh"},
}
BACKENDS = ("fft", "gemm")
# Where the permeability is as it is and the grid fine enough that a half FFT overflows; at scale paper its own grid.
OVERFLOWING: Mapping[Scale, int] = {"smoke": 160, "small": 256, "paper": 256}
SWEEP: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (96,),
    "small": (96, 128, 144, 160, 192),
    "paper": (64, 96, 128, 144, 160, 192),
}
# The paper's grid takes too long for a smoke test.
NAIVE: Mapping[Scale, tuple[str, ...]] = {"smoke": (), "small": ("navier-stokes",), "paper": ("navier-stokes",)}
WHERE = "blocks.0.conv, stage forward_transform"
"""How the trainer names the forward transform of the first FNO block."""


@dataclass(frozen=True)
class Method:
    """One epoch of half-precision training with one global method.

    `setting` is paper (its grid, fields normalised) or raw (Darcy flow with its permeability as it is).
    """

    problem: str
    setting: str
    resolution: int
    backend: str
    method: str
    training: Training


def configurations(scale: Scale) -> list[Method]:
    raw = [_raw(scale, OVERFLOWING[scale], b, m) for b in BACKENDS for m in METHODS]
    sweep = [_raw(scale, n, "fft", "none") for n in SWEEP[scale]]
    papers = [] if scale == "smoke" else [_paper("darcy", scale, m) for m in METHODS]
    return [*raw, *sweep, *papers, *(_paper(name, scale, "none") for name in NAIVE[scale])]


def _raw(scale: Scale, resolution: int, backend: str, method: str) -> Method:
    training = half_training(raw_darcy(scale, resolution), **{"backend": backend, **METHODS[method]})
    return Method("darcy", "raw", resolution, backend, method, training)


def _paper(name: str, scale: Scale, method: str) -> Method:
    recipe = on_paper_grid(name, scale)
    training = half_training(recipe, **METHODS[method])
    return Method(name, "paper", recipe.parameters["resolution"], "fft", method, training)


def measure(method: Method, lab: Lab) -> list[dict[str, Any]]:
    """The trainer's own answer, and beside it every update of the epoch with its loss and scale."""
    trained = lab.train(method.training)
    rows = _trace(method.training, lab)
    return [{**row, "stopped": trained.reason or ""} for row in rows]


def _trace(training: Training, lab: Lab) -> list[dict[str, Any]]:
    """The epoch update by update; one that cannot be applied leaves the weights, so that the next one is met too."""
    config = training.config(lab.data(training.recipe, training.data_seed))
    dataset = lab.dataset(training.recipe, training.data_seed)
    assert isinstance(dataset, Dataset)
    engine = build_engine(config, dataset)
    order = cut(epoch_order(config.seed, 0, len(dataset.train)), config.batch_size)
    rows: list[dict[str, Any]] = []
    for start in range(0, len(order), config.accumulate):
        group = [Batch(*dataset.train[indices]) for indices in order[start : start + config.accumulate]]
        update = engine.update(group, sum(len(batch) for batch in group))
        loss = update.loss_sum / update.samples if update.finite else None
        rows.append({"update": len(rows) + 1, "loss": loss, "applied": update.applied, "loss_scale": engine.loss_scale})
    return rows


def exhibit(rows: list[Row]) -> Exhibit:
    keys = ("problem", "setting", "resolution", "backend", "method")
    groups = list(dict.fromkeys(tuple(row[name] for name in keys) for row in rows))
    largest = _largest(rows)
    return Exhibit(
        Comparison(
            ("dataset", "setting", "points a side", "backend", "method"),
            ("diverges", "updates", "not applied", "loss at the end", "loss scale at the end"),
            tuple(_line(group, select(rows, **dict(zip(keys, group, strict=True)))) for group in groups),
        ),
        (_losses(rows, largest), _scales(rows, largest)),
        (
            "paper: the paper's grid of 128 x 128, fields normalised. raw: Darcy flow with its permeability (3 or 12) "
            "as it is; with normalised inputs the means that an FFT adds up are near 0, and 256 x 256 does not "
            "overflow. The paper gives no numbers.",
            "An update is not applied where the loss or a gradient was not finite; the trainer itself stops at the "
            "first, or with loss scaling after an epoch of them.",
        ),
    )


def _largest(rows: list[Row]) -> int:
    """The raw grid on which all methods ran."""
    return max(row["resolution"] for row in rows if row["setting"] == "raw")


_TABULATED = {("paper", "darcy")}
"""Settings and problems that the paper's table has."""


def _line(group: tuple[Any, ...], found: list[Row]) -> Line:
    problem, setting, resolution, backend, method = group
    last = found[-1]
    failed = sum(not row["applied"] for row in found)
    ours = (_yes_or_no(_diverged(found)), len(found), failed, last["loss"], last["loss_scale"])
    paper = _yes_or_no(PAPER[method]) if (setting, problem) in _TABULATED else None
    return Line((TITLES[problem], setting, resolution, backend, method), (paper, None, None, None, None), ours)


def _yes_or_no(answer: bool) -> str:
    return "yes" if answer else "no"


def _diverged(found: list[Row]) -> bool:
    """The trainer stopped, or no loss was finite.

    A finite loss whose gradients overflow is what loss scaling is made for: it halves its scale and goes on.
    """
    return bool(found[0]["stopped"]) or all(row["loss"] is None for row in found)


def _losses(rows: list[Row], resolution: int) -> Panel:
    """A loss that is not finite has no point, as in the paper's figure."""
    series = []
    for backend in BACKENDS:
        for method in METHODS:
            found = select(rows, setting="raw", resolution=resolution, backend=backend, method=method)
            points = [(row["update"], row["loss"]) for row in found if row["loss"] is not None]
            if points and (backend == "fft" or method == "none"):
                x, y = zip(*points, strict=True)
                series.append(Series(f"{method} ({backend})", x, y))
    return Panel(f"{resolution} x {resolution}: finite losses", "update", "relative L2", tuple(series), ylog=True)


def _scales(rows: list[Row], resolution: int) -> Panel:
    series = tuple(
        Series(backend, tuple(row["update"] for row in found), tuple(row["loss_scale"] for row in found))
        for backend in BACKENDS
        if (found := select(rows, setting="raw", resolution=resolution, backend=backend, method="loss scaling"))
    )
    return Panel("loss scaling", "update", "loss scale", series, ylog=True)


def _found(rows: list[Row], setting: str, method: str, backend: str = "fft", problem: str = "darcy") -> list[Row]:
    own = select(rows, setting=setting, method=method, backend=backend, problem=problem)
    return [row for row in own if setting == "paper" or row["resolution"] == _largest(rows)]


def _check_outcome(setting: str, method: str, diverges: bool, problem: str, rows: list[Row]) -> Outcome | None:
    found = _found(rows, setting, method, problem=problem)
    if not found:
        return None
    grid = f"{found[0]['resolution']} x {found[0]['resolution']}"
    what = "diverges" if _diverged(found) else "stays finite"
    where = f"{TITLES[problem]}, {grid}" + (", not normalised" if setting == "raw" else "")
    return Outcome.of(_diverged(found) == diverges, f"{method} {what} in the first epoch on {where}")


def _check_scale(rows: list[Row]) -> Outcome | None:
    """Infinitesimal: below 1, from 65,536 at the start."""
    found = _found(rows, "paper", "loss scaling")
    if not found:
        return None
    scale = found[-1]["loss_scale"]
    return Outcome.of(scale < 1, f"on the paper's grid the loss scale ends at {scale:.3g} after {len(found)} updates")


def _check_gemm(rows: list[Row]) -> Outcome:
    broken = [method for method in METHODS if _diverged(_found(rows, "raw", method, "gemm"))]
    return Outcome.of(not broken, f"with matrix products {', '.join(broken) or 'none'} of the {len(METHODS)} diverges")


def _check_traced(rows: list[Row]) -> Outcome:
    failing = [method for method, fails in PAPER.items() if fails]
    named = [WHERE in _found(rows, "raw", method)[0]["stopped"] for method in failing]
    clause = f"{sum(named)} of {len(named)} divergences are traced to the first block's forward transform"
    return Outcome.of(all(named), clause)


_MEANS = (
    "its transform on the sphere has means in both backends, which cannot overflow: nothing of the paper's is tested"
)
_LATENT = "a latent grid of 64 x 64 x 64 at the paper's width takes a GPU"
PARTS = (
    *(
        Part(
            f"{method} diverges in the first epoch on Darcy flow",
            "diverges",
            358 if method == "none" else 1234,
            partial(_check_outcome, "paper", method, True, "darcy"),
        )
        for method, fails in PAPER.items()
        if fails
    ),
    Part("tanh remains stable on Darcy flow", "stable", 1234, partial(_check_outcome, "paper", "tanh", False, "darcy")),
    Part("the scale of loss scaling becomes infinitesimal", "infinitesimal", 1241, _check_scale),
    Part(
        "without stabilizer mixed precision gives NaN on Navier-Stokes",
        "NaN",
        358,
        partial(_check_outcome, "paper", "none", True, "navier-stokes"),
    ),
    Part("without stabilizer mixed precision gives NaN on shallow water", "NaN", 358, reason=_MEANS),
    Part("without stabilizer mixed precision gives NaN on Shape-Net Car", "NaN", 358, reason=_LATENT),
    *(
        Part(
            f"{method} {'diverges' if fails else 'stays finite'} where a half FFT overflows for certain",
            check=partial(_check_outcome, "raw", method, fails, "darcy"),
        )
        for method, fails in PAPER.items()
    ),
    Part("each of these divergences begins in the first block's forward transform", check=_check_traced),
    Part("with matrix products for transforms none of them diverges", check=_check_gemm),
)
EXPERIMENT = Experiment(
    name="global-stabilizers",
    source="Figure 'global stabilizers', appendix 'Numerical Stability: Post-Forward Methods'",
    question="Can loss scaling, gradient clipping or delayed updates keep a half-precision FFT stable?",
    claim="Loss scaling, clipping, delayed updates and no stabilizer all diverge in the first epoch; tanh does not.",
    parts=PARTS,
    measures=(
        Measure("update", "number of the update in the epoch"),
        Measure("loss", "mean train loss of the update; empty where it is not finite"),
        Measure("applied", "the update moved the weights"),
        Measure("loss_scale", "after the update, with loss scaling"),
        Measure("stopped", "why the trainer stopped in the same epoch; empty where it did not"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda method: (method.training,),
)
