"""Random search for a violated bound: 200,000 cases by default, the largest observed/bound of each theorem.

    python benchmarks/theory_bounds.py [--cases 200000] [--seed 0] [--out theory_bounds.json]
    python benchmarks/theory_bounds.py --fields

Exits with code 1 if any ratio exceeds 1. The generators are those of the tests, with other seeds. `--fields` instead
prints the measured errors of smooth, kinked and two-valued fields over grid sizes (the table of docs/theory.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "theory"))

import random_arithmetic as arithmetic
import random_cases as cases

from halfwave.theory import emulated_fft, precision_error

# (what, check, arguments, share of the cases); multilinear functions are the bulk, as most theorems are
# about them; a block case costs as much as twenty of them.
SEARCHES: list[tuple[str, Callable[..., None], tuple[Any, ...], float]] = [
    ("discretization, d = 1", cases.check_discretization, (1, 25), 0.30),
    ("discretization, d = 2", cases.check_discretization, (2, 25), 0.26),
    ("discretization, d = 3", cases.check_discretization, (3, 25), 0.14),
    ("smooth periodic, d = 1", cases.check_smooth, (1, 25), 0.04),
    ("smooth periodic, d = 2", cases.check_smooth, (2, 25), 0.02),
    ("smooth periodic, d = 3", cases.check_smooth, (3, 25), 0.01),
    ("precision systems", arithmetic.check_system, (25,), 0.13),
    ("matrix products", arithmetic.check_gemm, (4,), 0.06),
    ("half-precision FFT", arithmetic.check_half_fft, (4,), 0.03),
    ("spectral convolutions", arithmetic.check_block, (4,), 0.01),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="write the figures as JSON")
    parser.add_argument("--fields", action="store_true", help="measure smooth and rough fields instead")
    options = parser.parse_args()
    if options.fields:
        return measure_fields(options.seed)
    started = time.perf_counter()
    tallies = search(options.cases, options.seed)
    total = sum(tally.cases for tally in tallies.values())
    worst = {f"{what}: {label}": r for what, tally in tallies.items() for label, r in sorted(tally.worst.items())}
    report(tallies, total, time.perf_counter() - started)
    if options.out is not None:
        figures = {"cases": total, "seed": options.seed, "largest_observed_over_bound": worst}
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    violated = [label for label, ratio in worst.items() if ratio > 1 + 1e-12]
    if violated:
        print(f"{len(violated)} bounds violated: {', '.join(violated)}", file=sys.stderr)
    return 1 if violated else 0


def random_fields(seed: int, points: int = 1024) -> dict[str, np.ndarray]:
    """Zero-mean Gaussian fields (-Laplacian + 9)^-power on a fine grid: smooth, with kinks, with jumps."""
    rng = np.random.default_rng(seed)
    k = np.fft.fftfreq(points, 1 / points)
    symbol = (2 * np.pi) ** 2 * (k[:, None] ** 2 + k[None] ** 2) + 9

    def gaussian(power: float) -> np.ndarray:
        field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((points, points))) * symbol**-power).real
        field -= field.mean()
        return field / np.abs(field).max()

    return {
        "smooth (Navier-Stokes forcing law)": gaussian(4.0),
        "kinked (modulus of a rough field)": np.abs(gaussian(1.25)),
        "two values (Darcy coefficient)": np.where(gaussian(2.0) > 0, 12.0, 3.0) / 12,
    }


def measure_fields(seed: int) -> int:
    """Root mean square over |w_k| <= 3 of the discretization error and of the errors in fp16 and bf16."""
    modes = [(a, b) for a in range(4) for b in range(-3, 4)]
    table = Table(title="rms error of the coefficients |w_k| <= 3")
    for heading in ("field", "grid", "discretization", "fp16 inputs", "fp16 FFT", "bf16 FFT"):
        table.add_column(heading)
    for name, fine in random_fields(seed).items():
        truth = np.fft.fft2(fine, norm="forward")
        for m in (16, 32, 64, 128, 256):
            v = fine[:: len(fine) // m, :: len(fine) // m]
            exact = np.fft.fft2(v, norm="forward")
            errors = {"discretization": [abs(exact[w] - truth[w]) for w in modes]}
            errors["inputs"] = [float(precision_error(v, w, m, "fp16")) for w in modes]
            for format, scale in (("fp16", 0.25), ("bf16", 1.0)):
                half = emulated_fft(v * scale, format) / (v.size * scale)
                errors[format] = [abs(half[w] - exact[w]) for w in modes]
            table.add_row(name, f"{m}^2", *[f"{np.sqrt(np.mean(np.square(e))):.1e}" for e in errors.values()])
    Console(width=110).print(table)
    return 0


def search(total: int, seed: int) -> dict[str, cases.Tally]:
    """Run every search until it has its share of the cases (overflowing cases are drawn again)."""
    tallies = {}
    with Progress(transient=True) as progress:
        for number, (what, check, arguments, share) in enumerate(SEARCHES):
            wanted = round(total * share)
            task = progress.add_task(what, total=wanted)
            tally = tallies[what] = cases.Tally()
            rng = np.random.default_rng([seed, number])
            while tally.cases < wanted:
                check(rng, tally, *arguments)
                progress.update(task, completed=tally.cases)
    return tallies


def report(tallies: dict[str, cases.Tally], total: int, seconds: float) -> None:
    table = Table(title=f"{total:,} cases in {seconds:.0f} s: largest observed/bound (at most 1)")
    for heading in ("search", "cases", "theorem", "ratio"):
        table.add_column(heading)
    for what, tally in tallies.items():
        for label, ratio in sorted(tally.worst.items()):
            table.add_row(what, f"{tally.cases:,}", label, f"{ratio:.4f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())
