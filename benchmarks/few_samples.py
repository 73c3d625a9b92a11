"""DDP and FSDP on two processes with 1 to 5 train and test samples: all end, with the metrics of one process.

    python benchmarks/few_samples.py --most 5

Fewer samples than processes, and shares of other lengths, are where one process would wait for another for ever. All
runs of two processes are made under one torchrun, a run that hangs ends with exit code 1. Prints the largest relative
difference of any figure of any epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from halfwave.data import Darcy, generate
from halfwave.files import write_json
from halfwave.training import TrainConfig, read_metrics, train

FIGURES = ("train_loss", "test_l2", "test_h1")
STRATEGIES = ("ddp", "fsdp")
TOLERANCE = 1e-4  # gradients of two processes are added in another order, and AdamW divides by small ones


def main() -> int:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return run_all(Path(sys.argv[1]), Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=5, help="samples of a split")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for all runs of two processes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return compare(Path(folder), options.most, options.timeout)


def run_all(configs: Path, folder: Path) -> int:
    """In each of the processes: every run, one after the other."""
    for name, values in json.loads(configs.read_text()).items():
        train(TrainConfig(**values), folder / name, quiet=True)
    return 0


def compare(folder: Path, most: int, timeout: float) -> int:
    single = single_runs(folder, most)
    double = {
        f"{name}-{strategy}": config.model_copy(update={"strategy": strategy, "devices": 2}).to_dict()
        for name, config in single.items()
        for strategy in STRATEGIES
    }
    write_json(folder / "configs.json", double)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(Path(__file__).resolve()), str(folder / "configs.json"), str(folder)]
    ended = run_within(command, timeout)
    for name, config in single.items():
        train(config, folder / name, quiet=True)
    finished = [name for name in double if (folder / name / "summary.json").exists()]
    worst = max((difference(folder / name, folder / name.rsplit("-", 1)[0]) for name in finished), default=0.0)
    print(f"{len(finished)} of {len(double)} runs of two processes ended; largest difference from one {worst:.1e}")
    return 0 if ended and len(finished) == len(double) and worst < TOLERANCE else 1


def single_runs(folder: Path, most: int) -> dict[str, TrainConfig]:
    """Batches of two: of three and more samples the shares of an epoch, or of an evaluation, differ in number."""
    data = generate(Darcy(resolution=16), folder / "darcy.h5", n_train=most, n_test=most, seed=0)
    settings = {"data": str(data), "arguments": {"n_modes": (4, 4), "hidden_channels": 6, "n_layers": 2}}
    return {
        f"{n_train}-{n_test}": TrainConfig(
            **settings, n_train=n_train, n_test=n_test, epochs=2, batch_size=2, precision="full"
        )
        for n_train, n_test in product(range(1, most + 1), repeat=2)
    }


def run_within(command: list[str], timeout: float) -> bool:
    try:
        return subprocess.run(command, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"no end within {timeout:.0f} s: a process waits for another")
        return False


def difference(found: Path, expected: Path) -> float:
    """The largest relative difference of a figure of two runs."""
    pairs = zip(read_metrics(found), read_metrics(expected), strict=True)
    return max(abs(a[name] - b[name]) / abs(b[name]) for a, b in pairs for name in FIGURES)


if __name__ == "__main__":
    sys.exit(main())
