"""Kill a run with SIGKILL at random moments, resume it each time, and compare with a run that was left alone.

    python benchmarks/kill_resume.py --kills 20

Prints one line per kill and ends with exit code 0 when the final weights are equal bit for bit and metrics.csv has the
same rows (times aside), with 1 otherwise. The run has a precision schedule, loss scaling, clipping and delayed updates.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from halfwave.data import Darcy, generate
from halfwave.training import TrainConfig, read_metrics, train
from halfwave.training.sealed import read_sealed

TIMES = ("seconds", "samples_per_second")
RUN = """
import json, sys
train(TrainConfig(**json.loads(sys.argv[1])), sys.argv[2], quiet=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = build_config(folder)
        start = time.monotonic()
        train(config, folder / "whole", quiet=True)
        seconds = time.monotonic() - start
        print(f"uninterrupted run: {seconds:.1f} s, {len(read_metrics(folder / 'whole'))} epochs", flush=True)
        kills = kill_often(config, folder / "killed", options.kills, seconds, random.Random(options.seed))
        return report(folder / "whole", folder / "killed", kills)


def build_config(folder: Path) -> TrainConfig:
    generate(Darcy(resolution=32), folder / "darcy.h5", n_train=48, n_test=8, seed=0)
    return TrainConfig(
        data=str(folder / "darcy.h5"),
        arguments={"n_modes": (8, 8), "hidden_channels": 16, "n_layers": 3},
        epochs=40,
        batch_size=4,
        precision="schedule",
        loss_scaling=True,
        clip=5.0,
        accumulate=2,
        checkpoint_steps=1,
    )


def kill_often(config: TrainConfig, run_dir: Path, kills: int, seconds: float, moments: random.Random) -> int:
    """Kill `kills` processes at random moments, then let the last one finish.

    Three of four are killed some time after they have written a checkpoint, so that the run gets on; one of four at any
    moment from its start on, while it loads, restores, or trains.
    """
    command = [sys.executable, "-c", RUN, json.dumps(config.to_dict()), str(run_dir)]
    done = 0
    while done < kills:
        before = newest(run_dir)
        process = subprocess.Popen(command)
        if moments.random() < 0.25:
            time.sleep(moments.uniform(0, 10))
        else:
            while newest(run_dir) == before and process.poll() is None:
                time.sleep(0.002)
            time.sleep(moments.uniform(0, 0.6 * seconds / kills))
        process.kill()
        if process.wait() >= 0:
            print(f"the run finished after {done} kills", flush=True)
            return done
        done += 1
        print(f"kill {done}: newest checkpoint {newest(run_dir)}", flush=True)
    subprocess.run(command, check=True)
    return done


def newest(run_dir: Path) -> str | None:
    return max((p.name for p in (run_dir / "state").glob("at-*")), default=None)


def report(whole: Path, killed: Path, kills: int) -> int:
    a, b = (read_sealed(run / "model.safetensors")[0] for run in (whole, killed))
    weights = a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
    rows = [[{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(r)] for r in (whole, killed)]
    print(
        f"{kills} kills: weights {'equal' if weights else 'DIFFER'}, rows {'equal' if rows[0] == rows[1] else 'DIFFER'}"
    )
    return 0 if weights and rows[0] == rows[1] else 1


if __name__ == "__main__":
    sys.exit(main())
