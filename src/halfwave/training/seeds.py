"""The same run from several seeds: mean and deviation of its figures."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from halfwave.errors import InputError
from halfwave.files import write_json
from halfwave.training.config import TrainConfig
from halfwave.training.trainer import RunResult, train

FIGURES = ("l2", "h1", "train_loss", "samples_per_second", "peak_memory_bytes", "activation_bytes")


def train_seeds(config: TrainConfig, run_dir: str | Path, seeds: int, *, quiet: bool = False) -> dict[str, Any]:
    """Train with `seeds` seeds, from the config's on, in ``run_dir/seed-N``; those that are finished are not run again.

    Returns, and writes to ``run_dir/summary.json``, {"seeds": [...], figure: {"mean", "std", "values"}}; the standard
    deviation is that of the sample, 0 for one seed. Stops after a run that was interrupted.
    """
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    numbers = range(config.seed, config.seed + seeds)
    results = []
    for seed in numbers:
        results.append(train(config.model_copy(update={"seed": seed}), Path(run_dir) / f"seed-{seed}", quiet=quiet))
        if results[-1].status == "interrupted":
            return {"status": "interrupted", "seeds": list(numbers)[: len(results)]}
    summary = {"status": "finished", "seeds": list(numbers), **{f: _spread(results, f) for f in FIGURES}}
    write_json(Path(run_dir) / "summary.json", summary)
    return summary


def _spread(results: list[RunResult], figure: str) -> dict[str, Any]:
    values = [getattr(result, figure) for result in results]
    known = [float(value) for value in values if value is not None]
    mean = statistics.fmean(known) if known else None
    return {"mean": mean, "std": statistics.stdev(known) if len(known) > 1 else 0.0, "values": values}
