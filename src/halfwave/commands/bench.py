"""`halfwave bench`: this library against neuraloperator in one run, as ratios."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table

from halfwave.commands.common import as_usage, log_console, results_console
from halfwave.commands.traffic import describe_traffic, plan_step_traffic
from halfwave.errors import UsageError
from halfwave.files import write_json
from halfwave.measure import BENCH_CASES, BenchCase, BenchRow, build_ours, keep_freed_blocks, measure_rates, run_cases
from halfwave.numerics import avoid_missing_tiles, describe_cpu, thread_count
from halfwave.precision import NAMES
from halfwave.tables import build_table
from halfwave.training import describe_environment


@dataclass
class Bench:
    """This library against neuraloperator in one run, as ratios."""

    cases: tuple[str, ...] = ()
    """Names of cases, such as step-128x128; by default all."""
    policies: tuple[str, ...] = NAMES
    """Of this library: full, amp, half, mixed. The peer runs in its best mode: fp32, autocast, compiled."""
    compile: bool = False
    """Also torch.compile, for both libraries where it ends (a minute or two for each policy and case)."""
    mesh: str | None = None
    """Also count what a step of each FNO and SFNO would send on a mesh, such as grid=4, beside an FFT's transposes."""
    rounds: int = 3
    """Times that each takes its turn; medians are reported."""
    heap: Literal["kept", "default"] = "kept"
    """Of both libraries: kept lets glibc hold freed blocks for the next tensor, as a tuned machine does."""
    out: Path = Path("bench.json")
    """Where the figures go."""

    def run(self) -> None:
        names = [case.name for case in BENCH_CASES]
        for name in self.cases:
            if name not in names:
                raise UsageError(f"unknown case {name!r}: expected one of {', '.join(names)}")
        for policy in self.policies:
            if policy not in NAMES:
                raise UsageError(f"unknown precision {policy!r}: expected one of {', '.join(NAMES)}")
        if self.rounds < 1:
            raise UsageError(f"--rounds must be at least 1, got {self.rounds}")
        chosen = [case for case in BENCH_CASES if not self.cases or case.name in self.cases]
        traffic = as_usage(lambda: self._traffic(chosen))
        log = log_console()
        avoid_missing_tiles()
        kept = self.heap == "kept" and keep_freed_blocks()
        rates = measure_rates()
        log.print(
            f"{describe_cpu()}; products at {rates.fp32 / 1e9:.0f} (fp32) and {rates.bf16 / 1e9:.0f} (bf16) GFLOP/s"
        )
        rows: list[BenchRow] = []
        for found in run_cases(chosen, self.policies, self.compile, self.rounds, rates, log.print):
            rows += found
            log.print(f"{found[0].case}: done, {len({row.case for row in rows})} of {len(chosen)}")
            # After every case: an interrupt keeps what was measured.
            write_json(self.out, self._record(rows, asdict(rates), kept) | traffic)
        results_console().print(bench_table(rows))
        for name, found in traffic.get("traffic", {}).items():
            results_console().print(f"{name}: {describe_traffic(found)}")

    def _record(self, rows: list[BenchRow], rates: dict[str, object], kept: bool) -> dict[str, object]:
        machine = {
            "cpu": describe_cpu(), "threads": thread_count(), "torch": torch.__version__, "rates": rates,
            "heap": "kept" if kept else "as the environment has it",
        }  # fmt: skip
        # Not the command, which names places of this machine.
        environment = {name: value for name, value in describe_environment().items() if name != "command"}
        record = {"machine": machine, "environment": environment, "rounds": self.rounds}
        return record | {"cases": [row.to_dict() for row in rows]}

    def _traffic(self, chosen: list[BenchCase]) -> dict[str, dict[str, Any]]:
        """By case, of the models that can share a grid; nothing without --mesh."""
        if self.mesh is None:
            return {}
        found = {}
        for case in chosen:
            if case.kind in ("step", "sfno"):
                with torch.device("meta"):
                    model = build_ours(case)
                found[case.name] = plan_step_traffic(model, (case.batch, 1, *case.grid), self.mesh, "full")
        return {"traffic": found}


def bench_table(rows: list[BenchRow]) -> Table:
    """Ratios to the peer: time above 1 and memory below 1 are in our favour; "limit" is our time over the least."""
    cells = [
        (
            row.case.removeprefix("step-"),
            row.policy if row.mode == "eager" else f"{row.policy} compiled",
            f"{row.seconds:.3g}",
            f"{row.peer_seconds:.3g}",
            row.peer_mode,
            f"{row.ratio:.2f}x",
            f"{row.memory_ratio:.2f}x",
            f"{row.seconds / row.roofline_seconds:.1f}x",
        )
        for row in rows
    ]
    figures = ["s", "peer s", "its mode", "faster", "memory", "limit"]
    return build_table("against neuraloperator at its best", ["case", "policy"], figures, cells)
