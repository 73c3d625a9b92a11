"""global-stabilizers: what acts after the forward pass cannot mend an overflow inside it.

Loss scaling, gradient clipping and delayed updates against tanh before the transform, all with a half-precision FFT;
the resolution from which it overflows; and the same with transforms as matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from halfwave.data import Dataset
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.overflow import half_training, raw_darcy
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict
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
RESOLUTION: Mapping[Scale, int] = {"smoke": 160, "small": 256, "paper": 256}
SWEEP: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (96,),
    "small": (96, 128, 144, 160, 192),
    "paper": (64, 96, 128, 144, 160, 192),
}
WHERE = "blocks.0.conv, stage forward_transform"
"""How the trainer names the forward transform of the first FNO block."""


@dataclass(frozen=True)
class Method:
    """One epoch of half-precision training with one global method."""

    resolution: int
    backend: str
    method: str
    training: Training


def configurations(scale: Scale) -> list[Method]:
    at_full_size = [Method(RESOLUTION[scale], b, m, _training(scale, RESOLUTION[scale], b, m))
                    for b in BACKENDS for m in METHODS]  # fmt: skip
    sweep = [Method(n, "fft", "none", _training(scale, n, "fft", "none")) for n in SWEEP[scale]]
    return [*at_full_size, *sweep]


def _training(scale: Scale, resolution: int, backend: str, method: str) -> Training:
    return half_training(raw_darcy(scale, resolution), **{"backend": backend, **METHODS[method]})


def measure(method: Method, lab: Lab) -> list[dict[str, Any]]:
    """The trainer's own answer, and beside it every update of the epoch with its loss and scale."""
    trained = lab.train(method.training)
    rows = _trace(method.training, lab)
    return [{**row, "stopped": trained.reason or ""} for row in rows]


def _trace(training: Training, lab: Lab) -> list[dict[str, Any]]:
    """The epoch update by update; one that cannot be applied leaves the weights, so that the next one is met too."""
    config = training.config(lab.data(training.recipe))
    dataset = lab.dataset(training.recipe)
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


def summarise(rows: list[Row]) -> Summary:
    largest = max(row["resolution"] for row in rows)
    at_largest = {(b, m): [r for r in rows if (r["resolution"], r["backend"], r["method"]) == (largest, b, m)]
                  for b in BACKENDS for m in METHODS}  # fmt: skip
    sweep = [row for row in rows if row["backend"] == "fft" and row["method"] == "none"]
    # The paper has one grid and one backend.
    lines = [
        _line((largest, *key), found, PAPER[key[1]] if key[0] == "fft" else None) for key, found in at_largest.items()
    ]
    lines += [
        _line((n, "fft", "none"), [row for row in sweep if row["resolution"] == n], None)
        for n in sorted({row["resolution"] for row in sweep} - {largest})
    ]
    return Summary(
        Comparison(
            ("points a side", "backend", "method"),
            ("diverges", "updates", "not applied", "loss at the end", "loss scale at the end"),
            tuple(lines),
        ),
        (_losses(at_largest, largest), _scales(at_largest)),
        Verdict((*_checks(at_largest, largest), _smallest(sweep))),
        (
            "Darcy flow with its permeability (3 or 12) as it is; with normalised inputs the means that an FFT adds up "
            "are near 0, and 256 x 256 does not overflow. The paper has 128 x 128 and gives no numbers.",
            "An update is not applied where the loss or a gradient was not finite; the trainer itself stops at the "
            "first, or with loss scaling after an epoch of them.",
        ),
    )


def _line(labels: tuple[int, str, str], found: list[Row], paper: bool | None) -> Line:
    last = found[-1]
    failed = sum(not row["applied"] for row in found)
    ours = (_yes_or_no(_diverged(found)), len(found), failed, last["loss"], last["loss_scale"])
    return Line(labels, (None if paper is None else _yes_or_no(paper), None, None, None, None), ours)


def _yes_or_no(answer: bool) -> str:
    return "yes" if answer else "no"


def _diverged(found: list[Row]) -> bool:
    """The trainer stopped, or no loss was finite.

    A finite loss whose gradients overflow is what loss scaling is made for: it halves its scale and goes on.
    """
    return bool(found[0]["stopped"]) or all(row["loss"] is None for row in found)


def _losses(at_largest: Mapping[tuple[str, str], list[Row]], resolution: int) -> Panel:
    """A loss that is not finite has no point, as in the paper's figure."""
    series = []
    for (backend, method), found in at_largest.items():
        points = [(row["update"], row["loss"]) for row in found if row["loss"] is not None]
        if points and (backend == "fft" or method == "none"):
            x, y = zip(*points, strict=True)
            series.append(Series(f"{method} ({backend})", x, y))
    return Panel(f"{resolution} x {resolution}: finite losses", "update", "relative L2", tuple(series), ylog=True)


def _scales(at_largest: Mapping[tuple[str, str], list[Row]]) -> Panel:
    series = tuple(
        Series(backend, tuple(row["update"] for row in found), tuple(row["loss_scale"] for row in found))
        for backend in BACKENDS
        if (found := at_largest[backend, "loss scaling"])
    )
    return Panel("loss scaling", "update", "loss scale", series, ylog=True)


def _checks(at_largest: Mapping[tuple[str, str], list[Row]], resolution: int) -> tuple[Check, ...]:
    outcomes = {key: _diverged(found) for key, found in at_largest.items()}
    failing = [method for method, fails in PAPER.items() if fails]
    survived = [method for method in failing if not outcomes["fft", method]]
    grid = f"{resolution} x {resolution}"
    all_fail = f"{', '.join(failing)} all diverge in the first epoch at {grid} with a half FFT"
    named = [WHERE in at_largest["fft", method][0]["stopped"] for method in failing]
    broken = [method for method in METHODS if outcomes["gemm", method]]
    return (
        Check(not survived, all_fail if not survived else f"{', '.join(survived)} did not diverge at {grid}"),
        Check(not outcomes["fft", "tanh"], f"tanh {'diverges' if outcomes['fft', 'tanh'] else 'stays finite'}"),
        Check(all(named), f"{sum(named)} of {len(named)} were traced to the first block's forward transform"),
        Check(
            not broken,
            f"with matrix products for transforms {', '.join(broken) or 'none'} of the {len(METHODS)} diverges",
        ),
    )


def _smallest(sweep: list[Row]) -> Check:
    by_size = {
        n: [row for row in sweep if row["resolution"] == n] for n in sorted({row["resolution"] for row in sweep})
    }
    bad = [n for n, found in by_size.items() if _diverged(found)]
    good = [n for n in by_size if n not in bad]
    if not bad:
        return Check(False, f"no resolution up to {max(by_size)} made the half FFT overflow")
    below = [n for n in good if n < bad[0]]
    clean = f", {max(below)} does not" if below else ""
    return Check(all(n > max(good, default=0) for n in bad), f"{bad[0]} points a side is the smallest that does{clean}")


EXPERIMENT = Experiment(
    name="global-stabilizers",
    source="Figure 'global stabilizers', appendix 'Numerical Stability: Post-Forward Methods'",
    question="Can loss scaling, gradient clipping or delayed updates keep a half-precision FFT stable?",
    claim="Loss scaling, clipping, delayed updates and no stabilizer all diverge in the first epoch; tanh does not.",
    measures=(
        Measure("update", "number of the update in the epoch"),
        Measure("loss", "mean train loss of the update; empty where it is not finite"),
        Measure("applied", "the update moved the weights"),
        Measure("loss_scale", "after the update, with loss scaling"),
        Measure("stopped", "why the trainer stopped in the same epoch; empty where it did not"),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda method: (method.training,),
)
