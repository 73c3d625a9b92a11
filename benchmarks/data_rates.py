"""Samples per second of every generator, with as many worker processes as there are cores (or `--workers`).

    python benchmarks/data_rates.py [--workers 2] [--only darcy-128 car-3586]

The rate is taken between the first and the last shard that is saved: saving counts, starting Python does not.
Beside it, the CPU seconds of one sample on one thread, which other people's load on the machine does not change.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch

from halfwave.data import Ahmed, Car, Darcy, NavierStokes, ShallowWater, generate
from halfwave.data.generator import Generator

CASES: dict[str, tuple[Generator, int, float | None]] = {
    "darcy-128": (Darcy(resolution=128), 480, 15.0),
    "navier-stokes-64": (NavierStokes(resolution=64), 128, 2.0),
    "navier-stokes-128": (NavierStokes(resolution=128), 48, 0.4),
    "shallow-water-256": (ShallowWater(resolution=256), 24, None),
    "car-3586": (Car(points=3586), 10, 0.2),
    "ahmed-100000": (Ahmed(points=100_000), 8, None),
}
"""Name -> generator, samples to make, the rate that issue 5 asks for on 2 cores."""


def measure(generator: Generator, samples: int, workers: int) -> float:
    """Samples per second between the first and the last saved shard."""
    seen: list[tuple[float, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((time.perf_counter(), done))

    with tempfile.TemporaryDirectory() as folder:
        generate(generator, Path(folder) / "data.h5", n_train=samples - 1, n_test=1, workers=workers, progress=note)
    started = [(at, done) for at, done in seen if done]
    (first, before), (last, after) = started[0], started[-1]
    return (after - before) / (last - first)


def cpu_seconds(generator: Generator) -> float:
    """CPU seconds a sample, of one chunk on one thread, after one chunk to warm up."""
    torch.set_num_threads(1)
    generator.samples(0, "test", range(generator.chunk))
    start = time.process_time()
    generator.samples(0, "train", range(generator.chunk))
    return (time.process_time() - start) / generator.chunk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    print(f"{'dataset':20} {'samples/s':>10} {'asked for':>10} {'CPU s/sample':>13}   ({arguments.workers} workers)")
    for name in arguments.only:
        generator, samples, target = CASES[name]
        rate = measure(generator, samples, arguments.workers)
        wanted = "-" if target is None else target
        print(f"{name:20} {rate:10.2f} {wanted:>10} {cpu_seconds(generator):13.3f}", flush=True)


if __name__ == "__main__":
    main()
