"""What the time of a step of `halfwave bench` is, by kinds of work: the table of docs/evidence/speed.md.

    python benchmarks/step_profile.py                                   # all steps, in mixed, on one thread
    python benchmarks/step_profile.py step-128x128-cp --policy full

Torch's profiler, self time on the CPU, the median of three profiled steps after two that are not. `rest` is Python
between operators, nodes of autograd, and operators of no kind below; the profiler itself makes a step some percent
longer, small ones more.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from halfwave.measure import BENCH_CASES, BenchCase, keep_freed_blocks
from halfwave.measure.bench_cases import build_batch
from halfwave.measure.contenders import our_contender
from halfwave.numerics import avoid_missing_tiles, describe_cpu, on_threads
from halfwave.precision import Policy

KINDS = {
    "products": ("mm", "bmm", "addmm", "baddbmm", "linear", "mkldnn_convolution"),
    "FFTs": ("_fft_r2c", "_fft_c2r", "_fft_c2c"),
    "nonlinearity": ("gelu", "gelu_backward"),
    "copies, casts": ("copy_", "_to_copy", "clone", "fill_", "zero_", "cat", "stack"),
    "gathers": ("index", "index_select", "index_add_", "index_put_", "scatter_add_", "segment_reduce", "gather"),
    "sums, scales": ("add", "sub", "mul", "div", "sum", "mean", "addcmul", "sqrt", "neg", "square", "pow"),
    "optimizer": ("_fused_adamw_",),
}
"""Operators by their names without `aten::`; one that works in place counts with the other."""
STEPS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in BENCH_CASES if case.trains]
    parser.add_argument("cases", nargs="*", default=names, help=f"of {', '.join(names)}")
    parser.add_argument("--policy", default="mixed")
    arguments = parser.parse_args()
    known = {case.name: case for case in BENCH_CASES}
    if unknown := [name for name in arguments.cases if name not in known]:
        raise SystemExit(f"unknown case {unknown[0]!r}: expected some of {', '.join(known)}")
    avoid_missing_tiles()
    keep_freed_blocks()
    print(f"{arguments.policy}, {describe_cpu()}, one thread, torch {torch.__version__}\n", flush=True)
    print(f"| step | CPU s | {' | '.join(KINDS)} | rest |\n| --- | --- |{' --- |' * (len(KINDS) + 1)}", flush=True)
    with on_threads(1):
        for name in arguments.cases:
            print(line(known[name], arguments.policy), flush=True)


def line(case: BenchCase, policy: str) -> str:
    """One row of the table."""
    torch.manual_seed(0)
    own = our_contender(case, Policy.named(policy), build_batch(case), compiled=False)
    own.step()
    own.step()
    steps = [_profiled(own.step) for _ in range(STEPS)]
    total = statistics.median(sum(step.values()) for step in steps)
    shares = {kind: statistics.median(step[kind] / sum(step.values()) for step in steps) for kind in (*KINDS, "rest")}
    return f"| {case.name} | {total:.3g} | {' | '.join(f'{share:.0%}' for share in shares.values())} |"


def _profiled(step: Callable[[], object]) -> dict[str, float]:
    """Seconds by kind of one step."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    seconds = dict.fromkeys((*KINDS, "rest"), 0.0)
    for event in profiler.key_averages():
        seconds[_kind(event.key)] += event.self_cpu_time_total / 1e6
    return seconds


def _kind(operator: str) -> str:
    name = operator.removeprefix("aten::")
    return next((kind for kind, names in KINDS.items() if name in names or name.removesuffix("_") in names), "rest")


if __name__ == "__main__":
    main()
