"""Random pipelines, formats and data for the precision and block bounds: shared by tests and benchmarks."""

from __future__ import annotations

import math

import numpy as np
from emulated_block import emulated_block, exact_block, frequencies, rms, weight_norms
from random_cases import Tally

from halfwave.numerics import FORMATS
from halfwave.theory import (
    Algorithm,
    Pipeline,
    PrecisionSystem,
    bound_block,
    bound_precision,
    bound_precision_system,
    emulated_fft,
    precision_error,
)
from halfwave.theory.lattice import read_lattice
from halfwave.theory.measured import modes_on_grid


def draw_block(rng: np.random.Generator):
    """A pipeline, a grid, modes, weights and a field: any formats, sizes, channels and scales."""
    formats = ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "tf32", "fp32"]
    chosen = [str(rng.choice(formats)) for _ in range(4)]
    if rng.random() < 0.6:
        half = str(rng.choice(["fp16", "bf16"]))
        chosen = [str(rng.choice([half, half, "fp32"])) for _ in range(4)]
    transform = str(rng.choice(["gemm", "gemm", "cast", "fft"]))
    # The FFT emulator has gradual underflow only.
    flush = transform != "fft" and rng.random() < 0.2
    pipeline = Pipeline(*chosen, transform, bool(rng.integers(2)), flush_to_zero=bool(flush))
    d = int(rng.integers(1, 4))
    largest = {1: 64, 2: 16, 3: 8}[d]
    if transform == "fft":
        grid = tuple(2 ** int(rng.integers(0, int(math.log2(largest)) + 1)) for _ in range(d))
    else:
        grid = tuple(int(m) for m in rng.integers(1, largest + 1, size=d))
    modes = tuple(int(n) for n in rng.integers(1, largest + 2, size=d))
    channels = tuple(int(c) for c in rng.integers(1, 7, size=2))
    return pipeline, grid, modes, channels


def check_block(rng: np.random.Generator, tally: Tally, count: int = 1) -> None:
    """`count` fields of different sizes through one pipeline, down into the underflow of its formats."""
    pipeline, grid, modes, (c_in, c_out) = draw_block(rng)
    kept = [len(w) for w in frequencies(grid, modes)]
    weights = rng.standard_normal((*kept, c_out, c_in)) + 1j * rng.standard_normal((*kept, c_out, c_in))
    weights *= 10.0 ** rng.uniform(-3, 0) / math.sqrt(c_in)
    if rng.random() < 0.2:
        weights = np.abs(weights) + 0j
    r2, ra = weight_norms(weights)
    tiny = rng.random() < 0.4
    for _ in range(count):
        v = rng.standard_normal((c_in, *grid)) * 10.0 ** (rng.uniform(-9, -3) if tiny else rng.uniform(-2, 0.5))
        if rng.random() < 0.3:
            v = np.abs(v)
        bias = rng.standard_normal(c_out) * rms(v) if rng.random() < 0.3 else np.zeros(c_out)
        computed = emulated_block(v, weights, grid, modes, pipeline, bias if bias.any() else None)
        if not np.all(np.isfinite(computed)):
            continue
        exact = exact_block(v, weights, grid, modes) + bias.reshape(-1, *[1] * len(grid))
        observed = rms(computed - exact) - 1e-14 * (r2 * rms(v) + rms(bias[:, None]))
        sizes = {"grid": grid, "modes": modes, "in_channels": c_in, "out_channels": c_out}
        bound = bound_block(pipeline, **sizes, r2=r2, ra=ra, norm=rms(v), bias=float(np.linalg.norm(bias)))
        tally.add(f"block {pipeline.transform} {'tiny' if tiny else 'normal'}", observed, float(bound))
        tally.cases += 1


def _sizes_in(rng: np.random.Generator, name: str, points: int) -> tuple[float, str]:
    """A scale for data: ordinary, in the underflow range of the format, or near its overflow."""
    format = FORMATS[name]
    kind = rng.integers(3)
    if kind == 0:
        return 10.0 ** rng.uniform(-2, 0), "normal"
    if kind == 1:
        return format.smallest_subnormal * 10.0 ** rng.uniform(-1, 2.5), "underflow"
    return format.largest / points * 10.0 ** rng.uniform(-0.7, -0.02), "near overflow"


def check_half_fft(rng: np.random.Generator, tally: Tally, count: int) -> None:
    """All coefficients of `count` fields by the emulated FFT."""
    name = str(rng.choice(["fp16", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "tf32", "fp32", "bf16x2", "bf16x3"]))
    d = int(rng.integers(1, 4))
    sides = tuple(2 ** int(k) for k in rng.integers(0, {1: 9, 2: 5, 3: 4}[d], size=d))
    points = math.prod(sides)
    scale, where = _sizes_in(rng, name, points)
    prescale = 2.0 ** int(rng.integers(0, 4)) if where == "underflow" else 1.0
    v = rng.standard_normal((count, *sides)) if rng.random() < 0.6 else rng.uniform(-1, 1, (count, *sides))
    if rng.random() < 0.4:
        v = np.abs(v)
    v = v / np.abs(v).max() * scale
    exact = np.fft.fftn(v, axes=tuple(range(1, d + 1))) / points
    computed = emulated_fft(v * prescale, name, axes=d) / (points * prescale)
    for values, truth, found in zip(v, exact, computed, strict=True):
        bound = bound_precision(name, sides, mean=float(np.abs(values).mean()), algorithm="fft", scale=prescale)
        if not math.isfinite(float(bound)):
            continue
        tally.cases += 1
        error = np.abs(found - truth).max() - 1e-14 * float(np.abs(values).max())
        tally.add(f"fft {where}", float(error) if np.isfinite(error) else math.inf, float(bound))


def check_gemm(rng: np.random.Generator, tally: Tally, count: int) -> None:
    """Single coefficients with rounded inputs, products, sums and outputs, in random combinations."""
    name = str(rng.choice(["fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "tf32", "fp32"]))
    d = int(rng.integers(1, 4))
    sides = tuple(int(m) for m in rng.integers(1, {1: 300, 2: 20, 3: 8}[d], size=d))
    w = [int(x) for x in rng.integers(-10, 11, size=d)]
    scale, where = _sizes_in(rng, name, 1)
    options = {}
    if rng.random() < 0.7:
        options = {
            "algorithm": "gemm",
            "accumulate": str(rng.choice(["fp32", "fp32", "fp16", "fp64"])),
            "products_rounded": bool(rng.integers(2)),
            "output_cast": bool(rng.integers(2)),
        }
    options["scale"] = 2.0 ** int(rng.integers(0, 4)) if where == "underflow" else 1.0
    named = {("name" if key == "algorithm" else key): value for key, value in options.items()}
    for _ in range(count):
        v = rng.uniform(-1, 1, sides) if rng.random() < 0.5 else np.abs(rng.standard_normal(sides))
        v = v / max(np.abs(v).max(), 1e-300) * scale
        sup, mean = float(np.abs(v).max()), float(np.abs(v).mean())
        bound = float(bound_precision(name, sides, sup=sup, mean=mean, **options))
        if not math.isfinite(bound):
            continue
        tally.cases += 1
        error = float(precision_error(v, w, sides, name, Algorithm(**named))) - 1e-14 * sup
        tally.add(f"{options.get('algorithm', 'inputs')} {where}", error if error == error else math.inf, bound)


def check_system(rng: np.random.Generator, tally: Tally, count: int) -> None:
    """The paper's definition of Prec in random (a0, eps, T) systems, underflow and saturation included."""
    a0, eps = 10.0 ** rng.uniform(-6, 0.3), 10.0 ** rng.uniform(-4, 0)
    steps = int(rng.integers(0, 1 + math.ceil(math.log(10.0 ** rng.uniform(0, 4) / a0 + 2) / math.log1p(eps))))
    system = PrecisionSystem(a0, eps, steps)
    m, w = int(rng.integers(1, 40)), int(rng.integers(-20, 21))
    phi = modes_on_grid(read_lattice(w, m))
    for _ in range(count):
        sup = 10.0 ** rng.uniform(-7, 4)
        v = rng.uniform(-1, 1, m) * sup if rng.random() < 0.4 else np.full(m, sup * rng.uniform(0.2, 1))
        observed = abs(np.mean(v * phi) - np.mean(system.quantize(v) * system.quantize(phi)))
        bound = float(bound_precision_system(float(np.abs(v).max()), a0, eps, steps))
        tally.add("system", float(observed) - 1e-14 * sup, bound)
        tally.cases += 1
