"""What the time of a compiled step of `halfwave bench` is: products, passes that the compiler fused, optimizer, rest.

    python benchmarks/compiled_profile.py                              # the compiled steps of docs/evidence/speed.md
    python benchmarks/compiled_profile.py step-64x64 --kernels 12      # and the kernels that take longest, by name

Every kernel that the compiled program calls is timed from outside, the median of some steps each. Torch's profiler
is not asked: with it a 0.13 s step took 0.18 s, and one kernel had all of the difference. `rest` is Python between
kernels, autograd's engine, guards and allocation; timing costs a microsecond a kernel.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from halfwave.measure import BENCH_CASES, BenchCase, keep_freed_blocks
from halfwave.measure.bench_cases import build_batch
from halfwave.measure.contenders import our_contender
from halfwave.numerics import avoid_missing_tiles, describe_cpu, thread_count
from halfwave.precision import Policy

STEPS = 9
FUSED = "cpp_fused"
"""How inductor's names for its own kernels begin."""
Seconds = dict[str, float]


class Clock:
    """Seconds of one step by kernel."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = function(*args, **kwargs)
            self.seconds[name] += time.perf_counter() - began
            return result

        return call

    def take(self) -> Seconds:
        taken, self.seconds = dict(self.seconds), defaultdict(float)
        return taken


class TimedKernels:
    """Stands in for the `extern_kernels` of a generated module: products, and what else torch computes for it."""

    def __init__(self, kernels: Any, clock: Clock) -> None:
        self._kernels, self._clock = kernels, clock

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kernel = getattr(self._kernels, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            shapes = " x ".join(str(tuple(a.shape)) for a in args if isinstance(a, torch.Tensor))
            return self._clock.timed(f"{name} {shapes}", kernel)(*args, **kwargs)

        return call


def generated_modules() -> Iterator[ModuleType]:
    """What the compiler has written and loaded in this process."""
    for module in list(sys.modules.values()):
        if any(name.startswith(FUSED) for name in vars(module)) and hasattr(module, "extern_kernels"):
            yield module


def profile(case: BenchCase, policy: str) -> tuple[float, Seconds]:
    """(median seconds of a step, median seconds of each kernel and of the optimizer)."""
    torch.manual_seed(0)
    torch.compiler.reset()
    own = our_contender(case, Policy.named(policy), build_batch(case), compiled=True)
    own.step()
    own.step()
    clock = Clock()
    for module in generated_modules():
        for name in [n for n in vars(module) if n.startswith(FUSED)]:
            setattr(module, name, clock.timed(f"{name} of {module.__name__[-4:]}", getattr(module, name)))
        module.extern_kernels = TimedKernels(module.extern_kernels, clock)  # type: ignore[attr-defined]
    assert own.optimizer is not None
    own.optimizer.step = clock.timed("optimizer", own.optimizer.step)  # type: ignore[method-assign]
    whole, steps = [], []
    for _ in range(STEPS):
        began = time.perf_counter()
        own.step()
        whole.append(time.perf_counter() - began)
        steps.append(clock.take())
    return statistics.median(whole), {name: statistics.median(step[name] for step in steps) for name in steps[0]}


def line(case: BenchCase, policy: str, kernels: int) -> str:
    """One row of the table, and after it the kernels that are asked for."""
    whole, seconds = profile(case, policy)
    shares = {
        "products": sum(s for name, s in seconds.items() if "mm " in name) / whole,
        "fused passes": sum(s for name, s in seconds.items() if name.startswith(FUSED)) / whole,
        "optimizer": seconds["optimizer"] / whole,
    }
    cells = [*shares.values(), 1 - sum(shares.values())]
    row = f"| {case.name} | {whole:.3g} | {' | '.join(f'{share:.0%}' for share in cells)} |"
    longest = sorted(seconds.items(), key=lambda item: -item[1])[:kernels]
    return "\n".join([row, *(f"    {1e3 * s:8.2f} ms  {name}" for name, s in longest)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {case.name: case for case in BENCH_CASES if case.kind == "step"}
    names = [name for name in known if not name.endswith(("-cp", "-batch32"))]
    parser.add_argument("cases", nargs="*", default=names, help=f"of {', '.join(known)}")
    parser.add_argument("--policy", default="mixed")
    parser.add_argument("--kernels", type=int, default=0, help="so many that take longest, for each step")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.cases if name not in known]:
        raise SystemExit(f"unknown case {unknown[0]!r}: expected some of {', '.join(known)}")
    avoid_missing_tiles()
    keep_freed_blocks()
    print(f"{arguments.policy}, compiled, {describe_cpu()}, {thread_count()} threads, torch {torch.__version__}\n")
    print(
        "| step | s | products | fused passes | optimizer | rest |\n| --- | --- | --- | --- | --- | --- |", flush=True
    )
    for name in arguments.cases:
        print(line(known[name], arguments.policy, arguments.kernels), flush=True)


if __name__ == "__main__":
    main()
