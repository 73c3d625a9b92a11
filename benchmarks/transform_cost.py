"""Fit the cost model of `backend="auto"` to this machine, and say how good the fit and its choices are.

    python benchmarks/transform_cost.py [--repeats 5] [--points 1000000]

For every shape and format both backends are measured in turn, forward and inverse, in CPU seconds of one thread (which
other people's load changes little); the best of the repeats counts. The coefficients minimise the squared relative
error and cannot be negative. Printed: the coefficients as `spectral/cost.py` has them, the error of the fit, the share
of shapes where the model takes the faster backend, and what its wrong choices cost. The same for the model as it is.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls

from halfwave.numerics import arithmetic_of
from halfwave.spectral import FourierTransform
from halfwave.spectral.cost import RATES, Rates, Work, arithmetic_kind, choose, fft_work, gemm_work
from halfwave.spectral.modes import AxisModes

SHAPES = [
    ((256,), (32,)),
    ((1024,), (16,)),
    ((1024,), (64,)),
    ((1024,), (512,)),
    ((4096,), (1024,)),
    ((1009,), (64,)),
    ((32, 32), (16, 16)),
    ((64, 64), (16, 16)),
    ((64, 64), (64, 64)),
    ((96, 100), (24, 24)),
    ((127, 127), (32, 32)),
    ((128, 128), (16, 16)),
    ((128, 128), (64, 64)),
    ((128, 128), (128, 128)),
    ((256, 256), (32, 32)),
    ((256, 256), (128, 128)),
    ((16, 16, 16), (8, 8, 8)),
    ((32, 32, 32), (8, 8, 8)),
    ((32, 32, 32), (32, 32, 32)),
    ((37, 53, 41), (12, 12, 12)),
    ((64, 64, 64), (16, 16, 16)),
]
FORMATS_MEASURED = ("fp32", "bf16", "tf32")


@dataclass(frozen=True)
class Measurement:
    """Nanoseconds of one field's transform (mean of forward and inverse) in both backends, and what they do."""

    name: str
    modes: tuple[AxisModes, ...]
    gemm: float
    fft: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--points", type=int, default=1_000_000, help="of all fields together: 8 to 512 fields a shape")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for format in FORMATS_MEASURED:
        found = [measure(grid, modes, format, options.points, options.repeats) for grid, modes in SHAPES]
        kind = arithmetic_kind(arithmetic_of(format, "cpu"))
        fitted = Rates(gemm=fit(found, "gemm", gemm_work), fft=fit(found, "fft", fft_work))
        print(f"\n{format}: kind {kind}, {len(found)} shapes")
        print(f'    "{kind}": {rounded(fitted)},')
        report("fitted", fitted, found)
        report("in use", RATES["cpu"][kind], found)
        for m in found:
            print(f"    {m.name:32} gemm {shown(m, fitted, 'gemm')}   fft {shown(m, fitted, 'fft')}")


def measure(grid: tuple[int, ...], n_modes: tuple[int, ...], format: str, points: int, repeats: int) -> Measurement:
    fields = min(512, max(8, points // math.prod(grid)))
    x, arith = torch.randn(1, fields, *grid), arithmetic_of(format, "cpu")
    transforms = {name: FourierTransform(n_modes, name) for name in ("gemm", "fft")}  # type: ignore[arg-type]
    best = {name: [math.inf, math.inf] for name in transforms}
    for _ in range(repeats + 1):
        for name, transform in transforms.items():
            spectrum = transform.forward(x, arith)
            best[name][0] = min(best[name][0], cpu_seconds(lambda t=transform: t.forward(x, arith)))
            back = cpu_seconds(lambda t=transform, s=spectrum: t.inverse(s, grid, grid, arith))
            best[name][1] = min(best[name][1], back)
    each = {name: 1e9 * sum(pair) / 2 / fields for name, pair in best.items()}
    shape = f"{'x'.join(map(str, grid))}, {'x'.join(map(str, n_modes))} modes"
    return Measurement(shape, transforms["gemm"].modes(grid), each["gemm"], each["fft"])


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def fit(found: list[Measurement], backend: str, work: Callable[[tuple[AxisModes, ...]], Work]) -> Work:
    """Non-negative coefficients with the least squared relative error."""
    measured = np.array([getattr(m, backend) for m in found])
    features = np.array([work(m.modes) for m in found])
    coefficients, _ = nnls(features / measured[:, None], np.ones(len(found)))
    return tuple(float(value) for value in coefficients)


def report(label: str, rates: Rates, found: list[Measurement]) -> None:
    errors = [abs(rates.nanoseconds(b, m.modes) / getattr(m, b) - 1) for m in found for b in ("gemm", "fft")]
    lost, right = [], 0
    for m in found:
        chosen = getattr(m, choose(rates.nanoseconds("gemm", m.modes), rates.nanoseconds("fft", m.modes)))
        right += chosen == min(m.gemm, m.fft)
        lost.append(chosen / min(m.gemm, m.fft) - 1)
    print(
        f"    {label}: median error {100 * statistics.median(errors):.0f}%, right choices {right} of {len(found)}, "
        f"time lost by choices: mean {100 * statistics.fmean(lost):.1f}%, worst {100 * max(lost):.0f}%"
    )


def shown(m: Measurement, rates: Rates, backend: str) -> str:
    return f"{getattr(m, backend) / 1e6:8.4f} ms (model {rates.nanoseconds(backend, m.modes) / 1e6:8.4f})"


def rounded(rates: Rates) -> str:
    gemm, fft = (", ".join(f"{value:.3g}" for value in work) for work in (rates.gemm, rates.fft))
    return f"Rates(gemm=({gemm}), fft=({fft}))"


if __name__ == "__main__":
    main()
