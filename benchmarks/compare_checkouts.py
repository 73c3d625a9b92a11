"""Time and memory of a training step in two checkouts of this repository: two processes that take turns, as ratios.

    python benchmarks/compare_checkouts.py --before PATH/TO/OTHER/CHECKOUT [--cases step-64x64 ...] [--rounds 15]

Each process holds one model of each case and policy and does one step when told to, so both see the same machine at the
same time. Prints the medians, the median of the ratios of neighbouring steps, and activation bytes counted at dispatch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int, int, dict[str, Any]]] = {
    "step-16x16": ("FNO", (16, 16), (16, 16), 32, 32, {}),
    "step-64x64": ("FNO", (64, 64), (32, 32), 64, 8, {}),
    "step-128x128": ("FNO", (128, 128), (64, 64), 64, 8, {}),
    "step-128x128-cp": ("FNO", (128, 128), (64, 64), 64, 8, {"factorization": "cp", "rank": 0.05}),
    "sfno-256x512": ("SFNO", (256, 512), (256, 256), 32, 4, {}),
    "unet-64x64": ("UNet", (64, 64), (), 32, 8, {}),
}


def worker(cases: list[str], policies: list[str]) -> None:
    """Answer `case policy` on standard input with the seconds of a step, `bytes case policy` with its activations."""
    import torch

    import halfwave as hw

    try:
        from halfwave.measure import measure
    except ImportError:
        from halfwave.training.measures import measure

    def build(name: str, policy: str) -> tuple[Any, Any, tuple[Any, Any], Callable[[], None]]:
        kind, grid, modes, channels, batch, options = CASES[name]
        torch.manual_seed(0)
        model = (
            hw.UNet(1, 1, channels, precision=policy)
            if kind == "UNet"
            else getattr(hw, kind)(modes, 1, 1, channels, 4, precision=policy, **options)
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        x, y = torch.randn(2, batch, 1, *grid).unbind(0)

        def step() -> None:
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()

        step()
        return model, optimizer, (x, y), step

    # What the library itself prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    held: dict[tuple[str, str], Any] = {}
    for line in sys.stdin:
        order, case, policy = line.split()
        if (case, policy) not in held:
            held.clear()  # one case at a time: the machine's memory is shared
            held[case, policy] = build(case, policy)
        model, optimizer, given, step = held[case, policy]
        if order == "bytes":
            answer: float = measure(step, model, optimizer, given).activation_bytes
        else:
            start = time.perf_counter()
            step()
            answer = time.perf_counter() - start
        print(json.dumps(answer), file=answers, flush=True)


class _Process:
    def __init__(self, checkout: Path, cases: list[str], policies: list[str]) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout / "src"),
            "MALLOC_MMAP_THRESHOLD_": "1073741824",
            "MALLOC_TRIM_THRESHOLD_": "2147483647",
        }
        command = [sys.executable, __file__, "--worker", "--cases", *cases, "--policies", *policies]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, order: str, case: str, policy: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{order} {case} {policy}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker ended with exit code {self.process.wait()}")
        return float(json.loads(answer))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout of this repository")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["step-64x64", "step-128x128", "sfno-256x512"])
    parser.add_argument("--policies", nargs="+", default=["full", "mixed"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.cases, arguments.policies)
        return 0
    if arguments.before is None:
        parser.error("--before is needed: a checkout of the commit to compare with")
    sides = [
        _Process(checkout, arguments.cases, arguments.policies)
        for checkout in (arguments.before, Path(__file__).resolve().parents[1])
    ]
    print(f"{'case':18}{'policy':8}{'before s':>10}{'after s':>10}{'ratio':>8}", end="")
    print(f"{'before MB':>12}{'after MB':>12}{'ratio':>8}")
    for case in arguments.cases:
        for policy in arguments.policies:
            held = [side.ask("bytes", case, policy) for side in sides]
            rounds = [[side.ask("step", case, policy) for side in sides] for _ in range(arguments.rounds)]
            before, after = (statistics.median(times) for times in zip(*rounds, strict=True))
            ratio = statistics.median(new / old for old, new in rounds)
            print(
                f"{case:18}{policy:8}{before:10.3f}{after:10.3f}{ratio:8.3f}"
                f"{held[0] / 1e6:12.1f}{held[1] / 1e6:12.1f}{held[1] / held[0]:8.3f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
