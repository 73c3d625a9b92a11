"""Fills the tables of docs/trust.md from results/torture.json and results/soak.json, and draws the soak.

    python docs/trust.py            # writes the page and docs/images/soak.png
    python docs/trust.py --check    # exits with 1 where the page is not what the results say

Only figures of runs that happened: a section that has not been run says so.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from halfwave.files import read_json, written_aside

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs" / "trust.md", ROOT / "docs" / "images" / "soak.png"
TORTURE, SOAK = ROOT / "results" / "torture.json", ROOT / "results" / "soak.json"
HEADS = ("tried", "refused", "equal", "altered", "raw", "crashed", "hung", "memory_over")
Rows = list[dict[str, Any]]


def page(text: str) -> str:
    """The page with its marked parts filled."""
    found = read_json(TORTURE) if TORTURE.exists() else {}
    soak = read_json(SOAK) if SOAK.exists() else None
    parts = {
        "mutations": _section(found, "mutations", _counts),
        "crafted": _section(found, "crafted", _counts),
        "full disks": _section(found, "full disks", _counts),
        "forgeries": _section(found, "forgeries", _counts),
        "kills": _section(found, "kills", _kills),
        "processes": "\n\n".join(
            (
                _section(found, "interrupts", _interrupts),
                _section(found, "few samples", lambda rows: f"Few samples on two processes: {rows[0]['result']}."),
                _section(found, "writers", _writers),
            )
        ),
        "soak": "Not run yet." if soak is None else _soak(soak),
    }
    for name, filled in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda match, filled=filled: f"{match[1]}\n{filled}\n\n{match[2]}", text)
    return text


def _section(found: dict[str, Any], name: str, written: Any) -> str:
    if name not in found:
        return f"{name.capitalize()}: not run yet."
    section, made = found[name], found[name]["commit"]
    sizes = ", ".join(f"{size} {count}" for size, count in section["sizes"].items())
    bad = f"{len(section['bad'])} that must not be." if section["bad"] else "Nothing that must not be."
    later = {row["name"]: row["commit"] for row in section["rows"] if row.get("commit", made) != made}
    again = "".join(f" {name} again at {commit}." for name, commit in later.items())
    return f"{written(section['rows'])}\n\n{section['date']}, commit {made}, {sizes}. {bad}{again}"


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in row)} |" for row in lines)


def _counts(rows: Rows) -> str:
    heads = ("what", *(head.replace("_", " ") for head in HEADS))
    return _table(heads, [(row["name"], *(row[head] for head in HEADS)) for row in rows])


def _kills(rows: Rows) -> str:
    heads = ("kills", "rounds", "equal", "failed", "leftovers")
    return _table(("command", *heads), [(row["name"], *(row[head] for head in heads)) for row in rows])


def _interrupts(rows: Rows) -> str:
    row = rows[0]
    ended = f"{row['interrupted']} ended with exit code 130"
    return f"Interrupts from the start on: {row['tried']}, of which {ended}; {row['bad']} bad."


def _writers(rows: Rows) -> str:
    return _table(("several writers", "what came of it"), [(row["what"], row["result"]) for row in rows])


def _soak(soak: dict[str, Any]) -> str:
    readers = soak["readers"].values()
    worst = max(_growth(looks, "heap") for looks in readers)
    left = max(looks[-1]["files"] - looks[0]["files"] for looks in readers)
    training = soak["training"]
    return (
        f"{soak['steps']} updates: heap {_growth(training, 'heap'):+.2%}, open files "
        f"{training[-1]['files'] - training[0]['files']:+d}. {soak['cycles']} cycles of {len(soak['readers'])} kinds "
        f"of files: heap at most {worst:+.2%}, open files at most {left:+d}. {soak['date']}, commit {soak['commit']}."
    )


def _growth(looks: Rows, what: str) -> float:
    return looks[-1][what] / looks[max(0, len(looks) // 10 - 1)][what] - 1


def draw(soak: dict[str, Any]) -> None:
    """Heap over the steps of the training, and of every reader over its cycles, relative to a tenth of the way."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    training = soak["training"]
    left.plot([look["at"] for look in training], [look["heap"] / 1e6 for look in training], label="in use (heap)")
    left.plot([look["at"] for look in training], [look["resident"] / 1e6 for look in training], label="resident")
    left.set(title="training", xlabel="updates", ylabel="MB", ylim=(0, None))
    left.legend()
    for name, looks in soak["readers"].items():
        base = looks[max(0, len(looks) // 10 - 1)]["heap"]
        middle.plot([look["at"] for look in looks], [100 * (look["heap"] / base - 1) for look in looks], label=name)
    middle.axhline(1, color="C3", linestyle="--")
    middle.set(title="readers: heap", xlabel="cycles of open, read, close", ylabel="growth in %", ylim=(-1.5, 1.5))
    for looks in (training, *soak["readers"].values()):
        share = [look["at"] / looks[-1]["at"] for look in looks]
        right.plot(share, [look["files"] for look in looks])
    right.set(title="open files, training and readers", xlabel="part of the work", ylabel="descriptors", ylim=(0, None))
    with written_aside(PICTURE) as aside:
        figure.savefig(aside, format="png", dpi=110)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        current = page(text) == text
        print(f"docs/trust.md is {'what the results say' if current else 'not current: python docs/trust.py'}")
        return int(not current)
    PAGE.write_text(page(text), encoding="utf-8")
    if SOAK.exists():
        draw(read_json(SOAK))
    return 0


if __name__ == "__main__":
    sys.exit(main())
