"""`make torture`: damaged and forged files, kills, full disks, interrupts, few samples, several writers, counted.

    python benchmarks/torture.py                         # all sections, at the sizes of a release
    python benchmarks/torture.py --only kills --kills 50
    python benchmarks/torture.py --mutations 100 --forgeries 100 --kills 8

Seeded. Each section writes its counts to --out (results/torture.json) when it is done, with its sizes and the commit;
a section that is there with the same sizes is not run again, unless --again. docs/trust.py makes the table of
docs/trust.md from that file. Exit code 1 where something happened that must not.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "faults"), str(ROOT / "benchmarks")]

from crafted_files import run_crafted  # noqa: E402
from file_torture import failures  # noqa: E402
from file_torture import run as torture_files  # noqa: E402
from forgeries import forged  # noqa: E402
from full_disks import run_full_disks  # noqa: E402
from guarded import Outcome, run_trials  # noqa: E402

import halfwave  # noqa: E402
from early_interrupts import interrupt_often  # noqa: E402
from halfwave.files import read_json, write_json  # noqa: E402
from halfwave.models import build_model  # noqa: E402
from halfwave.training.sealed import read_sealed, write_sealed  # noqa: E402
from kills import run_kills  # noqa: E402
from writers import run_writers  # noqa: E402

MODELS: dict[str, dict[str, Any]] = {
    "FNO": {"n_modes": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2},
    "TFNO": {"n_modes": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2, "rank": 0.3},
    "SFNO": {"n_modes": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2},
    "UNet": {"in_channels": 1, "out_channels": 1, "hidden_channels": 4, "n_levels": 2},
}


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    mutations: int
    forgeries: int
    kills: int
    interrupts: int
    samples: int
    seed: int
    processes: int
    """Side by side, which changes nothing but the time."""
    readers: list[str] | None
    """Kinds of files to damage; None for all."""


def mutations(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    say = partial(print, flush=True)
    return _told(torture_files(sizes.mutations, sizes.seed, say, sizes.processes, sizes.readers))


def crafted(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    with tempfile.TemporaryDirectory(prefix="halfwave-crafted-") as folder:
        return _told([run_crafted(Path(folder))])


def full_disks(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    return _told([run_full_disks()])


def _told(found: list[Outcome]) -> tuple[list[dict[str, Any]], list[str]]:
    return [_counts(outcome) for outcome in found], failures(found)


def forgeries(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    """Records of models with a checksum that is right: another value, or none, anywhere in them."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in MODELS.items():
            found.append(_forge(name, arguments, sizes, Path(folder)))
            print(_counts(found[-1]), flush=True)
    return [_counts(outcome) for outcome in found], [note for o in found if o.bad for note in o.notes]


def _forge(name: str, arguments: dict[str, Any], sizes: Sizes, folder: Path) -> Outcome:
    halfwave.save(build_model(name, arguments), folder / "whole")
    tensors, values = read_sealed(folder / "whole")

    def trial(number: int) -> str:
        write_sealed(folder / "forged", tensors, forged(values, random.Random(f"{sizes.seed} {number}")))
        halfwave.load(folder / "forged")
        return "read"

    return run_trials(f"forged record of a {name}", sizes.forgeries, trial, "read")


def _counts(outcome: Outcome) -> dict[str, Any]:
    return {name: value for name, value in asdict(outcome).items() if name not in ("notes", "altered_trials")}


def kills(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    found = run_kills(sizes.kills, sizes.seed, partial(print, flush=True), sizes.processes)
    return [asdict(each) for each in found], [f"{each.name}: {each.notes}" for each in found if each.bad]


def interrupts(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    tries = interrupt_often(sizes.interrupts, sizes.seed)
    bad = [f"{each.command} after {each.moment:.3f} s: {each.code} {each.errors}" for each in tries if not each.good]
    return [{"tried": len(tries), "interrupted": sum(each.code == 130 for each in tries), "bad": len(bad)}], bad


def few_samples(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    command = [sys.executable, str(ROOT / "benchmarks" / "few_samples.py"), "--most", str(sizes.samples)]
    done = subprocess.run(command, capture_output=True, text=True)
    line = done.stdout.strip().splitlines()[-1]
    return [{"most": sizes.samples, "result": line}], [] if done.returncode == 0 else [line]


def writers(sizes: Sizes) -> tuple[list[dict[str, Any]], list[str]]:
    found = run_writers()
    return [{"what": what, "result": result} for what, result, _ in found], [
        what for what, _, good in found if not good
    ]


SECTIONS: dict[str, tuple[Callable[[Sizes], tuple[list[dict[str, Any]], list[str]]], tuple[str, ...]]] = {
    "mutations": (mutations, ("mutations",)),
    "crafted": (crafted, ()),
    "full disks": (full_disks, ()),
    "forgeries": (forgeries, ("forgeries",)),
    "kills": (kills, ("kills",)),
    "interrupts": (interrupts, ("interrupts",)),
    "few samples": (few_samples, ("samples",)),
    "writers": (writers, ()),
}
"""Each with the sizes that it depends on, beside the seed."""


def main() -> int:
    options = parse()
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    known: dict[str, Any] = read_json(options.out) if options.out.exists() else {}
    for name in ["mutations"] if options.readers else options.only or SECTIONS:
        section, depends = SECTIONS[name]
        asked = {"seed": sizes.seed, **{size: getattr(sizes, size) for size in depends}}
        if not options.again and not options.readers and known.get(name, {}).get("sizes") == asked:
            print(f"{name}: done already, with the same sizes")
            continue
        made, begun = {"commit": commit(), "date": time.strftime("%Y-%m-%d")}, cpu_seconds()
        rows, bad = section(sizes)
        spent = round((cpu_seconds() - begun) / 60, 1)
        record = {"sizes": asked, "rows": [{**row, **made} for row in rows], "bad": bad, "cpu_minutes": spent, **made}
        known[name] = _merged(known.get(name), record) if options.readers else record
        write_json(options.out, known)
        print(f"{name}: {len(bad)} that must not be" + "".join(f"\n  {line}" for line in bad), flush=True)
    return int(any(section["bad"] for section in known.values()))


def _merged(before: dict[str, Any] | None, record: dict[str, Any]) -> dict[str, Any]:
    """What is known of a section with some of its rows made again, at a later commit."""
    if before is None or before["sizes"] != record["sizes"]:
        raise SystemExit("--readers is for a section that has been run with the same sizes")
    again = {row["name"]: row for row in record["rows"]}
    bad = [line for line in before["bad"] if not line.startswith(tuple(f"{name} " for name in again))]
    rows = [again.get(row["name"], row) for row in before["rows"]]
    spent = round(before["cpu_minutes"] + record["cpu_minutes"], 1)
    return {**before, "rows": rows, "bad": bad + record["bad"], "cpu_minutes": spent}


def cpu_seconds() -> float:
    """Of this process and of those that it has started and seen end."""
    return sum(os.times()[:4])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=2000, help="of each kind of file")
    parser.add_argument("--forgeries", type=int, default=2000, help="of each kind of model")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--interrupts", type=int, default=28)
    parser.add_argument("--samples", type=int, default=5, help="most train and test samples on two processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="for damaged files and for kills, side by side")
    parser.add_argument("--readers", nargs="+", help="of damaged files these kinds again, by their names in the table")
    parser.add_argument("--only", choices=list(SECTIONS), nargs="+", help="these sections alone")
    parser.add_argument("--again", action="store_true", help="also what has been run with the same sizes")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "torture.json")
    return parser.parse_args()


def commit() -> str:
    """Of the tree that is tortured; `-dirty` where files of it have been changed since."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
