"""Do two folders of results hold the same numbers? Every column of every experiment but its timings.

    halfwave reproduce all --scale smoke --out BEFORE        # in the one checkout
    halfwave reproduce all --scale smoke --out AFTER         # in the other
    python benchmarks/same_results.py BEFORE/smoke AFTER/smoke

Prints for each experiment how many cells differ and by how much at most, and the first of them; exits with 1 if any do.
Columns that only one side has, hashes and dates are named and left out.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from halfwave.experiments.registry import NAMES, get_experiment

BOOKKEEPING = {"key", "hash", "checksum", "commit", "date", "seconds", "version", "machine", "measured"}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def difference(before: str, after: str) -> float:
    """Relative where both are numbers, else 0 or 1."""
    if before == after:
        return 0.0
    try:
        a, b = float(before), float(after)
    except ValueError:
        return 1.0
    return abs(a - b) / max(abs(a), abs(b))


def compare(name: str, before: Path, after: Path) -> int:
    """Cells that differ; says which."""
    timings = {measure.name for measure in get_experiment(name).measures if measure.timing}
    old, new = rows(before), rows(after)
    if len(old) != len(new):
        print(f"{name:24} {len(old)} rows before, {len(new)} after")
        return 1
    shared = [c for c in old[0] if c in new[0] and c not in timings | BOOKKEEPING]
    one_sided = sorted({*old[0]} ^ {*new[0]})
    cells = [(difference(a[c], b[c]), c, a[c], b[c]) for a, b in zip(old, new, strict=True) for c in shared]
    differing = [cell for cell in cells if cell[0] > 0]
    note = f"; only on one side: {', '.join(one_sided)}" if one_sided else ""
    if not differing:
        print(f"{name:24} {len(cells)} cells the same{note}")
        return 0
    most, column, a, b = max(differing)
    columns = ", ".join(sorted({cell[1] for cell in differing}))
    print(
        f"{name:24} {len(differing)} of {len(cells)} differ ({columns}), at most {most:.2g}: {column} {a} -> {b}{note}"
    )
    return len(differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    arguments = parser.parse_args()
    total = 0
    for name in NAMES:
        before, after = arguments.before / f"{name}.csv", arguments.after / f"{name}.csv"
        if before.exists() and after.exists():
            total += compare(name, before, after)
        else:
            print(f"{name:24} {'not before' if after.exists() else 'not after'}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
