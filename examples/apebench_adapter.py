"""A halfwave operator in APEBench: trained on a scenario's trajectories, rolled out, and judged by its own metric.

    pip install "halfwave[peer]"
    python examples/apebench_adapter.py Burgers --updates 500

`halfwave reproduce apebench` does the same for four scenarios, beside APEBench's own FNO.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import halfwave as hw
from halfwave.training import roll_out


def train_on(scenario: Any, run_dir: Path, updates: int, precision: str = "mixed") -> torch.nn.Module:
    """An FNO whose settings follow from the scenario's data, trained for about so many updates."""
    states, truth = (np.asarray(part, np.float32) for part in (scenario.get_train_data(), scenario.get_test_data()))
    data = {"train": {"trajectory": states}, "test": {"trajectory": truth}}
    epochs = max(1, updates * scenario.batch_size // (states.shape[0] * (states.shape[1] - 1)))
    settings = {"epochs": epochs, "batch_size": scenario.batch_size, "scheduler": "one-cycle", "precision": precision}
    hw.train(data=data, model="fno", run_dir=run_dir, horizon=1, domain="torus", residual=True, **settings)
    return hw.load(run_dir / "model.safetensors")


def judge(scenario: Any, model: torch.nn.Module) -> dict[str, np.ndarray]:
    """Every metric of the scenario on rollouts from its test states, one value a step."""
    truth = np.asarray(scenario.get_test_data(), np.float32)
    steps = truth.shape[1] - 1
    rolled = torch.stack(list(roll_out(model, torch.from_numpy(truth[:, 0]), steps)), dim=1).numpy()
    found = scenario.perform_tests_on_rollout(rolled, truth[:, 1:])
    return {name: np.asarray(values).reshape(-1) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", help="a class of apebench.scenarios.difficulty, such as Burgers")
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--precision", default="mixed")
    options = parser.parse_args()
    import apebench

    kind = getattr(apebench.scenarios.difficulty, options.scenario)
    scenario = kind(num_points=64, num_train_samples=20, train_temporal_horizon=30, num_test_samples=8)
    with tempfile.TemporaryDirectory() as folder:
        model = train_on(scenario, Path(folder) / "run", options.updates, options.precision)
        for name, values in judge(scenario, model).items():
            print(f"{name}: step 1 {values[0]:.3e}, geometric mean of 100 {np.exp(np.log(values[:100]).mean()):.3e}")


if __name__ == "__main__":
    main()
