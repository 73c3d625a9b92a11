"""Fills the marked places of README.md and of the evidence pages with figures from committed result files.

    python docs/readme.py            # writes the places
    python docs/readme.py --check    # exits with 1 where a page is not what the result files say

Read are results/SCALE/report.csv (written by `halfwave report`), the records beside it, and results/bench*.json
(written by `halfwave bench`). A place begins with `<!-- NAME: written by docs/readme.py -->` and ends with
`<!-- end of the NAME -->`; its sentences follow from the data, whatever they are.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCALES = ("medium", "small")
"""Of an experiment the larger one that is committed is shown."""
ERROR, AGAINST, MEMORY = "error, L2", "L2 against full [90%]", "memory less than full, %"
"""Figures of the overview that the README's table has."""
PEER = {"test error, L2": "test L2", "memory, MB": "memory, MB", "activations, MB": "activations, MB",
        "seconds per epoch": "seconds an epoch"}  # fmt: skip
Figures = dict[tuple[str, ...], dict[str, str]]
"""Cells by row (its keys' values) and name of the figure."""


def report_rows(scale: str) -> list[dict[str, str]]:
    path = ROOT / "results" / scale / "report.csv"
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def scale_of(experiment: str) -> str | None:
    """The largest scale that has figures of an experiment."""
    return next((s for s in SCALES if any(row["experiment"] == experiment for row in report_rows(s))), None)


def figures(experiment: str) -> Figures:
    """Our cells of one experiment."""
    found: Figures = {}
    for row in report_rows(scale_of(experiment) or "-"):
        if row["experiment"] == experiment:
            keys = tuple(part.split("=", 1)[-1] for part in row["row"].split("; "))
            found.setdefault(keys, {})[row["figure"]] = row["ours"]
    return found


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(text: str) -> str:
    """Three digits of a number; a text with units or intervals as it is."""
    try:
        value = float(text)
    except ValueError:
        return text or "–"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def compared(experiment: str, shown: dict[str, str]) -> str:
    """Rows (dataset, method) of an experiment with the figures that are shown."""
    found = {keys: cells for keys, cells in figures(experiment).items() if len(keys) == 2}
    present = [name for name in shown if any(cells.get(name) for cells in found.values())]
    if not present:
        return f"`{experiment}` is not among the committed results: `halfwave reproduce {experiment}` measures it."
    rows = [[*keys, *(number(cells.get(name, "")) for name in present)] for keys, cells in found.items()]
    return table(["data", "method", *(shown[name] for name in present)], rows)


def results() -> str:
    """The one table: full precision and the half methods on each problem, and where it was measured."""
    found = {keys: cells for keys, cells in figures("overview").items() if len(keys) == 2}
    methods = [m for m in dict.fromkeys(m for _, m in found) if m != "full" and not m.lower().startswith("amp")]
    rows = [
        [
            name,
            number(found.get((name, "full"), {}).get(ERROR, "")),
            *(_cell(found.get((name, m), {})) for m in methods),
        ]
        for name in dict.fromkeys(name for name, _ in found)
    ]
    # A pair of one seed is no comparison; report.csv has it.
    paired = [row for row in rows if not any("(one seed)" in cell for cell in row)] or rows
    if not rows:
        return "`overview` is not among the committed results: `halfwave reproduce overview` measures it."
    heads = ["data", "full, test L2", *methods]
    note = "Of each method: its L2 against full's, paired by seed [90%]; how much less memory it takes, %."
    return f"{table(heads, paired)}\n\n{note} {measured_on('overview')}"


def _cell(cells: dict[str, str]) -> str:
    """Of one method: its error against full's where it is known, or else the error; and the memory that it saves."""
    known = [number(cells[name]) for name in (AGAINST if cells.get(AGAINST) else ERROR, MEMORY) if cells.get(name)]
    return "; ".join(known) or "–"


def measured_on(experiment: str) -> str:
    """Scale, machine and commit of a record."""
    found = scale_of(experiment)
    path = ROOT / "results" / (found or "-") / f"{experiment}.json"
    if not path.exists():
        return f"No record of `{experiment}` is committed."
    record = json.loads(path.read_text(encoding="utf-8"))
    machines = [_machine(environment) for environment in record["environments"]]
    return (
        f"`halfwave reproduce {experiment} --scale {found}`; "
        + "; ".join(dict.fromkeys(machines))
        + ". Errors are relative L2 on the test split, memory is the peak of a training step."
    )


def _machine(environment: dict[str, object]) -> str:
    git = environment.get("git") or {}
    packages = environment.get("packages") or {}
    assert isinstance(git, dict)
    assert isinstance(packages, dict)
    cores, gpu = environment.get("cores"), environment.get("gpu") or "no GPU"
    commit = f"commit {str(git.get('commit'))[:7]}{' with changes' if git.get('changed') else ''}"
    return f"{environment.get('cpu')}, {cores} cores, {gpu}, torch {packages.get('torch')}, {commit}"


def verdicts() -> str:
    """How many experiments got which verdict; which experiment got which stands in the table below it."""
    sentences = []
    for scale in SCALES:
        status = {row["experiment"]: row["status"] for row in report_rows(scale)}
        counts = ", ".join(f"{count} {name}" for name, count in Counter(status.values()).most_common())
        sentences += [f"Of {len(status)} experiments that have results at scale {scale}: {counts}."] if status else []
    return " ".join(sentences) or "No results are committed."


def verdict_table() -> str:
    status = {(row["experiment"], scale): row["status"] for scale in SCALES for row in report_rows(scale)}
    rows = [[f"[{name}](report-{scale}.md#{name})", scale, text] for (name, scale), text in status.items()]
    return f"{verdicts()}\n\n{table(['experiment', 'scale', 'verdict'], rows)}" if rows else verdicts()


BENCHES = ("bench-native.json", "bench-native-compiled.json", "bench.json", "bench-compiled.json")
"""Records of `halfwave bench` on both kinds of machines: eager steps, and the compiled ones of a run of their own."""


def bench_records() -> list[dict[str, Any]]:
    """Those that are committed."""
    paths = (ROOT / "results" / name for name in BENCHES)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def bench() -> str:
    """Every row of the committed records, each record with its machine."""
    parts = []
    for record in bench_records():
        rows = [
            [
                row["case"],
                row["policy"] if row["mode"] == "eager" else f"{row['policy']}, compiled",
                f"{row['seconds']:.3g}",
                f"{row['peer_seconds']:.3g} ({row['peer_mode']})",
                f"{row['ratio']:.2f}",
                "–" if row["memory_ratio"] is None else f"{row['memory_ratio']:.2f}",
                f"{row['seconds'] / row['roofline_seconds']:.1f}",
            ]
            for row in record["cases"]
        ]
        heads = ["case", "policy", "ours, s", "theirs, s (mode)", "time, theirs / ours", "activations, ours / theirs",
                 "time over the least"]  # fmt: skip
        parts += [_bench_machine(record), table(heads, rows)]
    return "\n\n".join(parts) or "No record of `halfwave bench` is committed."


def _bench_machine(record: dict[str, Any]) -> str:
    machine, git = record["machine"], record["environment"]["git"] or {}
    changed = " with changes" if git.get("changed") else ""
    return (
        f"Medians of {record['rounds']} rounds in one process, heap {machine['heap']}; {machine['cpu']}, "
        f"torch {machine['torch']}, fp32 products at up to {machine['rates']['fp32'] / 1e9:.0f} GFLOP/s, "
        f"commit {str(git.get('commit'))[:7]}{changed}."
    )


def _compiled_run(record: dict[str, Any]) -> str:
    """Of the run that the compiled steps are from, what may differ from that of the eager ones."""
    rate, commit = record["machine"]["rates"]["fp32"], str((record["environment"]["git"] or {}).get("commit"))
    return f"Compiled: fp32 products at up to {rate / 1e9:.0f} GFLOP/s, commit {commit[:7]}."


def multiplies_half(record: dict[str, Any]) -> bool:
    """Whether the machine of a record multiplies half formats natively."""
    return not record["machine"]["cpu"].endswith("native half: none")


def speed() -> str:
    """One line a case: how many times faster than neuraloperator's best mode, and the share of its activations.

    Where two records of one kind of machine have a figure it is of the first, the run of all cases.
    """
    found: dict[str, dict[tuple[bool, str], str]] = {}
    machines: dict[bool, list[str]] = {}
    for record in bench_records():
        kind = multiplies_half(record)
        known = machines.setdefault(kind, [])
        known.append(_compiled_run(record) if known else _bench_machine(record))
        for row in record["cases"]:
            name = row["policy"] if row["mode"] == "eager" else f"{row['policy']}, compiled"
            cells = found.setdefault(row["case"], {})
            cells.setdefault((kind, name), f"{row['ratio']:.2f}")
            if name == "mixed":
                cells.setdefault((kind, "activations"), f"{row['memory_ratio']:.2f}")
    names = ("full", "mixed", "mixed, compiled", "activations")
    # Of a second kind of machine the two that differ most: the page of evidence has all.
    wanted = [(kind, name) for n, kind in enumerate(machines) for name in (names[1:3] if n else names)]
    shown = [column for column in wanted if any(column in row for row in found.values())]
    heads = [f"{name} {'(n)' if kind else '(w)'}" for kind, name in shown]
    rows = [[case, *(cells.get(column, "–") for column in shown)] for case, cells in found.items()]
    if not rows:
        return "No record of `halfwave bench` is committed."
    kinds = {True: "(n): a CPU that multiplies bf16.", False: "(w): a CPU that does not."}
    notes = " ".join(f"{kinds[kind]} {' '.join(known)}" for kind, known in machines.items())
    return f"{table(['training step or answer', *heads], rows)}\n\n{notes}"


def peer() -> str:
    return f"{compared('peer', PEER)}\n\n{measured_on('peer')}"


PLACES: dict[Path, dict[str, Callable[[], str]]] = {
    ROOT / "README.md": {"results": results, "verdicts": verdicts, "speed": speed},
    ROOT / "docs" / "evidence" / "index.md": {"verdicts": verdict_table},
    ROOT / "docs" / "evidence" / "speed.md": {"bench": bench, "peer": peer},
}


def filled(text: str, places: dict[str, Callable[[], str]]) -> str:
    """The page with its places written anew; a page without one of them is refused."""
    for name, write in places.items():
        begin, end = f"<!-- {name}: written by docs/readme.py -->", f"<!-- end of the {name} -->"
        pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"no place {name!r} between {begin} and {end}")
        text = pattern.sub(lambda _, w=write, b=begin, e=end: f"{b}\n\n{w()}\n\n{e}", text)
    return text


def main() -> None:
    for path, places in PLACES.items():
        text = path.read_text(encoding="utf-8")
        wanted = filled(text, places)
        if "--check" in sys.argv[1:] and wanted != text:
            raise SystemExit(f"{path.relative_to(ROOT)} is not what the result files say: run python docs/readme.py")
        if wanted != text:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
