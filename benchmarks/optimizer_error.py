"""Does one second moment for each complex number cost accuracy? An FNO on Darcy 64x64, 20 epochs, 5 paired seeds.

    python benchmarks/optimizer_error.py [--out runs/optimizer-error] [--epochs 20] [--seeds 5]

The same seed means the same initial weights and the same batches with every optimizer. Each run is a directory below
`--out`; interrupted, the script goes on where it was, and finished runs are not run again. Exits with 0 when the mean
over the seeds of the test L2 relative to that of torch's AdamW with the same seed is within 1% (or smaller) for every
lean optimizer, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from halfwave.commands.data import make_dataset
from halfwave.data import Darcy
from halfwave.files import make_directory, write_json
from halfwave.measure import keep_freed_blocks
from halfwave.optimizers import OPTIMIZERS
from halfwave.training import TrainConfig, train_seeds

TOLERANCE = 0.01
REFERENCE = "adamw"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/optimizer-error"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=400, help="of the train split; the test split has a quarter")
    options = parser.parse_args()
    make_directory(options.out)
    keep_freed_blocks()
    data = options.out / f"darcy-64-{options.samples}.h5"
    make_dataset(Darcy(resolution=64), data, options.samples, options.samples // 4, 0, os.cpu_count() or 1)
    errors: dict[str, list[float]] = {}
    for name in OPTIMIZERS:
        folder = options.out / f"{name}-{options.epochs}-epochs"
        summary = train_seeds(build_config(data, options.epochs, name), folder, options.seeds)
        if summary["status"] == "interrupted":
            print("interrupted: the same command goes on from here")
            return 1
        errors[name] = summary["l2"]["values"]
    ratios = {name: relative(values, errors[REFERENCE]) for name, values in errors.items()}
    write_json(options.out / "optimizer-error.json", {name: record(errors[name], ratios[name]) for name in errors})
    Console().print(build_table(errors, ratios))
    return 0 if all(statistics.fmean(values) <= TOLERANCE for values in ratios.values()) else 1


def build_config(data: Path, epochs: int, optimizer: str) -> TrainConfig:
    return TrainConfig(
        data=str(data),
        arguments={"n_modes": (24, 24), "hidden_channels": 24, "n_layers": 4},
        epochs=epochs,
        batch_size=16,
        learning_rate=3e-3,
        evaluate_every=epochs,
        precision="full",
        optimizer=optimizer,
    )


def relative(values: list[float], reference: list[float]) -> list[float]:
    """Of each seed, the test L2 over that of the reference, less 1: above 0 is worse."""
    return [value / expected - 1 for value, expected in zip(values, reference, strict=True)]


def record(values: list[float], ratios: list[float]) -> dict[str, Any]:
    return {"l2": values, "relative": ratios, "mean_relative": statistics.fmean(ratios)}


def build_table(errors: dict[str, list[float]], ratios: dict[str, list[float]]) -> Table:
    table = Table("optimizer", "test L2, mean", "each seed", "against adamw, paired", title="Darcy 64x64, FNO")
    for name, values in errors.items():
        each = ", ".join(f"{value:.4f}" for value in values)
        spread = statistics.stdev(ratios[name]) if len(values) > 1 else 0.0
        mean = f"{100 * statistics.fmean(ratios[name]):+.2f}% +- {100 * spread:.2f}%"
        table.add_row(name, f"{statistics.fmean(values):.4f}", each, mean)
    return table


if __name__ == "__main__":
    sys.exit(main())
