"""auto_precision on trained models: is each budget met on samples that it has not seen, and in how many bytes?

    python benchmarks/planned_precision.py FOLDER [--formats fp16 bf16] [--fresh 32]

FOLDER holds the runs of `trained_models.py`. Each model is planned with several budgets, from a fortieth of its test
error to all of it, on a few train and test samples; the plan is then measured on other test samples. Ends with exit
code 0 when every budget is met: the mean error of the fresh samples is within it (how many are is printed).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

import halfwave as hw
from halfwave.certificates import PrecisionPlan, measure_error
from halfwave.data import Dataset
from halfwave.training import CloudSamples, open_data, read_config

SHARES = (0.025, 0.05, 0.1, 0.14, 0.3, 1.0)
SAMPLES, HELD_OUT = 4, 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--formats", nargs="+", default=["fp16", "bf16"])
    parser.add_argument("--fresh", type=int, default=32, help="samples to measure on")
    options = parser.parse_args()
    torch.set_num_threads(1)
    met = []
    for run in sorted(options.folder.iterdir()):
        if (run / "model.safetensors").exists():
            met += _check(run, options.formats, options.fresh)
    print(f"\n{sum(met)} of {len(met)} budgets met")
    return 0 if all(met) else 1


def _check(run: Path, formats: list[str], count: int) -> list[bool]:
    model, data, fresh = _open(run, count)
    error = json.loads((run / "summary.json").read_text())["l2"]
    print(f"\n{run.name}: test L2 {error:.3%}")
    print(f"{'budget':>10}{'bytes':>8}{'predicted':>11}{'held out':>10}{'fresh':>10}{'within':>8}  wider than the rest")
    found = []
    for budget in (share * error for share in SHARES):
        plan = hw.auto_precision(model, data, max_error=budget, formats=formats, samples=SAMPLES, held_out=HELD_OUT)
        errors = measure_error(model, fresh, plan.policy)
        within = float((errors <= budget).double().mean())
        found.append(bool(errors.mean() <= budget))
        print(
            f"{budget:10.2e}{plan.bytes / plan.full_bytes:8.2f}{plan.predicted_error:11.2e}{plan.measured_error:10.2e}"
            f"{errors.mean():10.2e}{within:8.0%}  {_widened(plan)}",
            flush=True,
        )
    return found


def _open(run: Path, count: int) -> tuple[Any, Any, Any]:
    """The model, what it is planned on, and other samples."""
    operator: Any = hw.load(run / "model.safetensors")
    dataset = open_data(read_config(run / "config.json"))
    if isinstance(dataset, Dataset):
        last = len(dataset.test)
        return operator, dataset, dataset.test[max(HELD_OUT, last - count) : last][0]
    split = CloudSamples(dataset.test, operator.encoder)
    samples = [split[[row]][0].arguments() for row in range(len(split))]
    used = min(SAMPLES + HELD_OUT, len(samples) // 2)
    return operator.model, samples[:used], samples[used : used + count]


def _widened(plan: PrecisionPlan) -> str:
    wide = [f"{c.layer} {c.stage}" for c in plan.choices if c.format == "fp32"]
    return f"{len(wide)} of {len(plan.choices)} in fp32" + (f": {', '.join(wide[:3])}, ..." if wide else "")


if __name__ == "__main__":
    sys.exit(main())
