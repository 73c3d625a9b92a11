"""Bytes that a training step of a GINO holds at most, by the size of its latent grid.

    python benchmarks/gino_memory.py [--latent 64] [--points 3586] [--channels 64] [--precision mixed]

Counts every live tensor of a whole step exactly (`LiveBytes`), parameters, gradients, optimizer state and batch
included, and says whether it fits into 8 GiB. The process itself takes about as much, and a GiB for Python and torch.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from halfwave.measure.bench_cases import BENCH_CASES, build_batch, build_ours
from halfwave.measure.step import measure
from halfwave.models import set_precision

LIMIT_GIB = 8.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latent", type=int, default=64)
    parser.add_argument("--points", type=int, default=3586)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--precision", default="mixed")
    given = parser.parse_args()
    base = next(case for case in BENCH_CASES if case.kind == "gino")
    case = replace(base, grid=(given.latent,) * 3, points=given.points, channels=given.channels)
    torch.manual_seed(0)
    model = build_ours(case)
    set_precision(model, given.precision)
    inputs, y = build_batch(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        (model(*inputs) - y).square().mean().backward()
        optimizer.step()

    step()  # makes the optimizer's state and the matrices of the transforms
    found = measure(step, model, optimizer, (*inputs, y))
    peak = found.peak_memory_bytes / 2**30
    print(f"latent {given.latent}^3, {given.points} points, {given.channels} channels, {given.precision}:")
    print(f"peak {peak:.2f} GiB, of which activations {found.activation_bytes / 2**30:.2f} GiB")
    raise SystemExit(0 if peak <= LIMIT_GIB else f"more than {LIMIT_GIB} GiB")


if __name__ == "__main__":
    main()
