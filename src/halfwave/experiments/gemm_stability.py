"""gemm-stability: half precision without any stabilizer, transforms as matrix products against FFTs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from halfwave.certificates import observe
from halfwave.data import Dataset
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.overflow import half_training, raw_darcy
from halfwave.numerics import arithmetic_of, get_format
from halfwave.recipes import HALF
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.spectral import FourierTransform
from halfwave.training import build_engine

GRIDS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (96, 160),
    "small": (64, 96, 128, 160, 192, 256, 512),
    "paper": (64, 128, 256, 512, 1024),
}
# Finer grids are looked at in a single transform only.
TRAINED_UP_TO: Mapping[Scale, int] = {"smoke": 160, "small": 256, "paper": 1024}
BACKENDS = ("fft", "gemm")


@dataclass(frozen=True)
class Transformed:
    """One epoch of half-precision training without a stabilizer, and the first transform of the untrained model."""

    resolution: int
    backend: str
    trains: bool
    training: Training


def configurations(scale: Scale) -> list[Transformed]:
    return [_transformed(scale, n, backend) for n in GRIDS[scale] for backend in BACKENDS]


def _transformed(scale: Scale, resolution: int, backend: str) -> Transformed:
    trains = resolution <= TRAINED_UP_TO[scale]
    recipe = raw_darcy(scale, resolution, None if trains else (1, 1))
    return Transformed(resolution, backend, trains, half_training(recipe, backend=backend))


def measure(transformed: Transformed, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(transformed.training) if transformed.trains else None
    return [
        {
            **_first_transform(transformed, lab),
            "stopped": "" if trained is None else trained.reason or "",
            "train_loss": trained.result.train_loss if trained and trained.result else None,
        }
    ]


@torch.no_grad()
def _first_transform(transformed: Transformed, lab: Lab) -> dict[str, Any]:
    """What the first block's transform gets from one sample, and how far its half-precision result is from float64."""
    recipe = transformed.training.recipe
    dataset = lab.dataset(recipe)
    assert isinstance(dataset, Dataset)
    model = build_engine(Training(recipe, "full").config(lab.data(recipe)), dataset).operator.model
    field = observe(model, dataset.train[:1][0]).inputs["blocks.0.conv"]
    modes = tuple(recipe.arguments["n_modes"])
    exact = FourierTransform(modes, "fft").forward(field.double(), arithmetic_of("fp64", "cpu"))
    transform = FourierTransform(modes, transformed.backend)  # type: ignore[arg-type]
    half = transform.forward(field.half(), arithmetic_of(HALF, "cpu")).double()
    error = float((half - exact).norm() / exact.norm())
    largest_mean = float(exact.abs().max())
    return {
        "largest_coefficient": largest_mean,
        "largest_sum": largest_mean * transformed.resolution**2,
        "transform_error": error if bool(half.isfinite().all()) else None,
    }


def exhibit(rows: list[Row]) -> Exhibit:
    lines = tuple(_line(row) for row in rows)
    by_backend = {backend: [row for row in rows if row["backend"] == backend] for backend in BACKENDS}
    sums = [row["largest_sum"] for row in by_backend["fft"]]
    means = [row["largest_coefficient"] for row in by_backend["gemm"]]
    grids = tuple(row["resolution"] for row in by_backend["fft"])
    limit = get_format(HALF).largest
    errors = tuple(_errors(backend, found) for backend, found in by_backend.items())
    return Exhibit(
        Comparison(
            ("points a side", "backend"),
            ("largest value held", "error of the transform, L2", "training", "train loss of the epoch"),
            lines,
        ),
        (
            Panel(
                "largest value that the first transform holds",
                "points a side",
                "",
                (
                    Series("fft: a sum", grids, sums),
                    Series("gemm: a mean", grids, means),
                    Series(f"largest {HALF} number", (grids[0], grids[-1]), (limit, limit), "dashed"),
                ),
                xlog=True,
                ylog=True,
            ),
            Panel("error of the first transform where finite", "points a side", "relative L2", errors, xlog=True),
        ),
        (
            "Not in the paper. Darcy flow with its permeability as it is, no stabilizer; one epoch of a few samples, "
            "grids without a train loss in one forward transform only.",
        ),
    )


def _errors(backend: str, found: list[Row]) -> Series:
    """Of the grids on which nothing overflowed."""
    finite = [row for row in found if row["transform_error"] is not None]
    return Series(backend, tuple(row["resolution"] for row in finite), tuple(row["transform_error"] for row in finite))


def _line(row: Row) -> Line:
    held = row["largest_sum"] if row["backend"] == "fft" else row["largest_coefficient"]
    outcome = "not run" if not row["trains"] else "diverges" if row["stopped"] else "finite"
    error = row["transform_error"] if row["transform_error"] is not None else "overflow"
    return Line((row["resolution"], row["backend"]), (None,) * 4, (held, error, outcome, row["train_loss"]))


def _failing(rows: list[Row], backend: str) -> list[int]:
    return [r["resolution"] for r in rows if r["backend"] == backend and (r["stopped"] or r["transform_error"] is None)]


def _check_fft(rows: list[Row]) -> Outcome:
    failing, finest = _failing(rows, "fft"), max(row["resolution"] for row in rows)
    where = f"from {min(failing)} points a side on" if failing else f"on none of the grids up to {finest}"
    return Outcome.of(bool(failing), f"the half FFT overflows {where}")


def _check_gemm(rows: list[Row]) -> Outcome:
    failing, finest = _failing(rows, "gemm"), max(row["resolution"] for row in rows)
    what = f"overflow on {failing}" if failing else f"stay finite on every grid up to {finest}"
    return Outcome.of(not failing, f"matrix products {what}, without a stabilizer")


def _check_error(rows: list[Row]) -> Outcome | None:
    errors = [r["transform_error"] for r in rows if r["backend"] == "gemm" and r["transform_error"] is not None]
    if not errors:
        return None
    growth = errors[-1] / errors[0]
    return Outcome.of(growth < 2, f"their error on the finest grid is {growth:.2f} times that on the coarsest")


PARTS = (
    Part("a half FFT without a stabilizer overflows on fine grids", check=_check_fft),
    Part("matrix products do not, on any grid", check=_check_gemm),
    Part("their error does not grow with the grid", check=_check_error),
)
EXPERIMENT = Experiment(
    name="gemm-stability",
    source="Our own; the paper has FFTs only",
    question="Does half precision need a stabilizer when transforms are matrix products?",
    claim="With 1/N folded into the matrix, half-precision coefficients are means and cannot overflow, on any grid.",
    parts=PARTS,
    measures=(
        Measure("largest_coefficient", "largest part of a Fourier coefficient of the first block's input, a mean"),
        Measure("largest_sum", "the same times the number of points, which an FFT holds before it divides"),
        Measure("transform_error", f"relative L2 of the transform in {HALF} against float64; empty where it overflows"),
        Measure("stopped", "why the trainer stopped; empty where it did not"),
        Measure("train_loss", "of the epoch, relative L2; empty where it diverged"),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda transformed: (transformed.training,) if transformed.trains else (),
)
