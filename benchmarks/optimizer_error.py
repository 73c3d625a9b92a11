"""Does one second moment for each complex number cost accuracy, or a narrow state? An FNO on Darcy 64x64, paired seeds.

    OMP_NUM_THREADS=1 python benchmarks/optimizer_error.py [--out runs/optimizer-error] [--epochs 20] [--seeds 5]

The same seed means the same initial weights and the same batches with every optimizer. Seed by seed, so that the table
after each is one of pairs. Every run is a directory below `--out`; interrupted, the script goes on where it was, and
finished runs are not run again. Some ten minutes of one core. Exits with 0 when the mean over the seeds of the test L2
relative to that of torch's AdamW with the same seed is within 1% (or smaller) for every lean optimizer, with 1
otherwise.
"""

from __future__ import annotations

import argparse
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
from halfwave.training import TrainConfig, train

TOLERANCE = 0.01
REFERENCE = "adamw"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/optimizer-error"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=120, help="of the train split; the test split has half as many")
    options = parser.parse_args()
    make_directory(options.out)
    keep_freed_blocks()
    data = options.out / f"darcy-64-{options.samples}.h5"
    make_dataset(Darcy(resolution=64), data, options.samples, options.samples // 2, 0, 1)
    errors: dict[str, list[float]] = {name: [] for name in OPTIMIZERS}
    for seed in range(options.seeds):
        for name in OPTIMIZERS:
            folder = options.out / f"{name}-{options.epochs}-epochs" / f"seed-{seed}"
            result = train(build_config(data, options.epochs, name, seed), folder, quiet=True)
            if result.status == "interrupted":
                print("interrupted: the same command goes on from here")
                return 1
            errors[name].append(result.l2)
        show(errors, options.out)
    return 0 if all(statistics.fmean(values) <= TOLERANCE for values in ratios_of(errors).values()) else 1


def show(errors: dict[str, list[float]], out: Path) -> None:
    """The table of the seeds that are done, and its file."""
    ratios = ratios_of(errors)
    write_json(out / "optimizer-error.json", {name: record(errors[name], ratios[name]) for name in errors})
    Console().print(build_table(errors, ratios))


def ratios_of(errors: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: relative(values, errors[REFERENCE]) for name, values in errors.items()}


def build_config(data: Path, epochs: int, optimizer: str, seed: int) -> TrainConfig:
    return TrainConfig(
        data=str(data),
        arguments={"n_modes": (16, 16), "hidden_channels": 16, "n_layers": 3},
        epochs=epochs,
        batch_size=6,
        learning_rate=3e-3,
        evaluate_every=epochs,
        precision="full",
        optimizer=optimizer,
        seed=seed,
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
