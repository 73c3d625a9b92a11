"""Does half precision cost accuracy? An FNO on Darcy 64x64, 20 epochs, 3 seeds: full against mixed bf16 and mixed fp16.

    python benchmarks/mixed_accuracy.py [--out runs/mixed-accuracy] [--epochs 20] [--seeds 3]

The same seed means the same initial weights and the same batches in every precision. Each run is a directory below
`--out`; interrupted, the script goes on where it was, and finished runs are not run again. Exits with 0 when the mean
test L2 of both mixed settings is within 2% of full precision, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from halfwave.commands.data import make_dataset
from halfwave.data import Darcy
from halfwave.files import make_directory, write_json
from halfwave.training import TrainConfig, train_seeds

TOLERANCE = 0.02
# Name -> settings of the trainer. fp16 has five bits of exponent: its gradients need a scaled loss.
SETTINGS: dict[str, dict[str, Any]] = {
    "full": {"precision": "full"},
    "mixed bf16": {"precision": "mixed", "dtype": "bf16"},
    "mixed fp16": {"precision": "mixed", "dtype": "fp16", "loss_scaling": True},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/mixed-accuracy"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=400, help="of the train split; the test split has a quarter")
    options = parser.parse_args()
    make_directory(options.out)
    data = options.out / f"darcy-64-{options.samples}.h5"
    make_dataset(Darcy(resolution=64), data, options.samples, options.samples // 4, 0, os.cpu_count() or 1)
    summaries = {}
    for name, settings in SETTINGS.items():
        folder = options.out / f"{name.replace(' ', '-')}-{options.epochs}-epochs"
        summaries[name] = train_seeds(build_config(data, options.epochs, settings), folder, options.seeds)
        if summaries[name]["status"] == "interrupted":
            print("interrupted: the same command goes on from here")
            return 1
    write_json(options.out / "mixed-accuracy.json", {name: summary["l2"] for name, summary in summaries.items()})
    Console().print(build_table(summaries))
    return 0 if all(abs(relative(summaries, name)) <= TOLERANCE for name in SETTINGS) else 1


def build_config(data: Path, epochs: int, settings: dict[str, Any]) -> TrainConfig:
    return TrainConfig(
        data=str(data),
        arguments={"n_modes": (24, 24), "hidden_channels": 24, "n_layers": 4},
        epochs=epochs,
        batch_size=16,
        learning_rate=3e-3,
        evaluate_every=epochs,
        **settings,
    )


def relative(summaries: dict[str, dict[str, Any]], name: str) -> float:
    """Mean test L2 over that of full precision, less 1: above 0 is worse."""
    return float(summaries[name]["l2"]["mean"] / summaries["full"]["l2"]["mean"] - 1)


def build_table(summaries: dict[str, dict[str, Any]]) -> Table:
    table = Table("precision", "test L2, mean", "deviation", "each seed", "against full", title="Darcy 64x64, FNO")
    for name, summary in summaries.items():
        l2 = summary["l2"]
        each = ", ".join(f"{value:.4f}" for value in l2["values"])
        table.add_row(name, f"{l2['mean']:.4f}", f"{l2['std']:.4f}", each, f"{100 * relative(summaries, name):+.1f}%")
    return table


if __name__ == "__main__":
    sys.exit(main())
