"""auto_precision on trained models: is each budget met on samples that it has not seen, and in how many bytes?

    python benchmarks/planned_precision.py FOLDER [NAME ...] [--fresh 64]

FOLDER holds the runs of `trained_models.py`. A budget is met when at least 90% of the fresh samples, which the planner
has not seen, have an error within it: that is what `auto_precision` promises. The budgets of a model are shares of what
bf16 everywhere is predicted to do to its answer, from a sixth, which all stages in fp16 nearly keep, down to a
sixtieth, so that each asks for another plan. Budgets of one model that end in the same plan are one case. Ends with
exit code 0 when all are met and there are at least CASES different ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

import halfwave as hw
from halfwave.certificates import PrecisionPlan, measure_error, predict_error
from halfwave.data import Dataset
from halfwave.precision import Policy
from halfwave.training import CloudSamples, open_data, read_config

SHARES = (1 / 6, 1 / 10, 1 / 15, 1 / 25, 1 / 60)
SAMPLES, HELD_OUT = 4, 16
PROMISED = 0.9
CASES = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="runs; by default all")
    parser.add_argument("--fresh", type=int, default=64, help="samples to measure on, at most")
    options = parser.parse_args()
    torch.set_num_threads(1)
    met: dict[tuple[str, str], bool] = {}
    budgets = 0
    for run in sorted(options.folder.iterdir()):
        if (run / "model.safetensors").exists() and (not options.names or run.name in options.names):
            for plan, held in _check(run, options.fresh):
                case = (run.name, _described(plan))
                met[case] = met.get(case, True) and held
                budgets += 1
    print(f"\n{budgets} budgets, {len(met)} different plans; met in {sum(met.values())} of {len(met)}")
    return 0 if all(met.values()) and len(met) >= CASES else 1


def _check(run: Path, count: int) -> list[tuple[PrecisionPlan, bool]]:
    model, data, fresh = _open(run, count)
    error = json.loads((run / "summary.json").read_text())["l2"]
    some = data.train[:2][0] if isinstance(data, Dataset) else data[:2]
    everywhere = float(predict_error(model, some, Policy.uniform("bf16")).mean())
    print(
        f"\n{run.name}: test L2 {error:.3%}, {len(fresh)} fresh samples, bf16 everywhere {everywhere:.2e} (predicted)"
    )
    print(f"{'budget':>10}{'bytes':>8}{'predicted':>11}{'held out':>10}{'fresh':>10}{'within':>8}  stages")
    found = []
    for budget in (share * everywhere for share in SHARES):
        plan = hw.auto_precision(model, data, max_error=budget, samples=SAMPLES, held_out=HELD_OUT)
        errors = measure_error(model, fresh, plan.policy)
        within = float((errors <= budget).double().mean())
        found.append((plan, within >= PROMISED))
        print(
            f"{budget:10.2e}{plan.bytes / plan.full_bytes:8.2f}{plan.predicted_error:11.2e}{plan.measured_error:10.2e}"
            f"{errors.mean():10.2e}{within:8.0%}  {_counted(plan)}",
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
    used = SAMPLES + HELD_OUT
    return operator.model, samples[:used], samples[used : used + count]


def _described(plan: PrecisionPlan) -> str:
    return ", ".join(f"{c.layer} {c.stage} {c.format}" for c in plan.choices)


def _counted(plan: PrecisionPlan) -> str:
    counts = {name: sum(c.format == name for c in plan.choices) for name in ("fp16", "bf16", "fp32")}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


if __name__ == "__main__":
    sys.exit(main())
