"""Plan the precision of an FNO on Darcy data, train it in full precision and with the plan, and compare test errors.

    python benchmarks/planned_precision.py --resolution 32 --seeds 2

The plan is made before training, from the untrained model and the train split. Both runs of a seed start from the same
weights and see the same batches. Ends with exit code 0 when the planned policy's mean test error (relative L2) is at
most 2% above full precision's, with 1 otherwise. A few minutes on one core.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import torch

from halfwave.certificates import PrecisionPlan, plan_precision
from halfwave.data import Darcy, generate, open_dataset
from halfwave.training import TrainConfig, build_operator, train

ALLOWED = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--train", type=int, default=400, help="samples")
    parser.add_argument("--test", type=int, default=100, help="samples")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=None, help="by default the data's discretization error")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(
            Darcy(resolution=options.resolution),
            folder / "darcy.h5",
            n_train=options.train,
            n_test=options.test,
            seed=0,
        )
        base = TrainConfig(
            data=str(folder / "darcy.h5"),
            arguments={"n_modes": [16, 16], "hidden_channels": 24, "n_layers": 4},
            epochs=options.epochs,
            batch_size=16,
            learning_rate=2e-3,
            precision="full",
        )
        plan = make_plan(base, options.tolerance)
        print(plan, flush=True)
        errors: dict[str, list[float]] = {"full": [], "planned": []}
        for seed in range(options.seeds):
            for kind, config in (("full", base), ("planned", planned(base, plan))):
                result = train(config.model_copy(update={"seed": seed}), folder / f"{kind}-{seed}", quiet=True)
                if result.status != "finished" or result.l2 is None:
                    print(f"seed {seed}, {kind}: {result.status} after {result.epochs} epochs")
                    return 1
                errors[kind].append(result.l2)
                print(f"seed {seed}, {kind}: test L2 {result.l2:.5f}, {result.activation_bytes} bytes", flush=True)
    full, chosen = (statistics.mean(errors[kind]) for kind in ("full", "planned"))
    print(f"mean test L2: full {full:.5f}, planned {chosen:.5f}, {chosen / full - 1:+.2%}")
    return 0 if chosen <= (1 + ALLOWED) * full else 1


def make_plan(config: TrainConfig, tolerance: float | None) -> PrecisionPlan:
    torch.manual_seed(config.seed)
    dataset = open_dataset(config.data)
    return plan_precision(build_operator(config, dataset), dataset, tolerance)


def planned(config: TrainConfig, plan: PrecisionPlan) -> TrainConfig:
    values = {**config.to_dict(), "precision": "planned", "policy": plan.policy, "loss_scaling": plan.loss_scaling}
    return TrainConfig(**values)


if __name__ == "__main__":
    sys.exit(main())
