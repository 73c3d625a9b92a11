"""Draws the map in docs/architecture.md from the imports of the code, so that it cannot rot.

    python docs/architecture.py            # writes the map between its markers
    python docs/architecture.py --check    # exits with 1 where the page is not what the code is

A room is a package of `halfwave`; the map lists each below all that it imports, with what its door says, its size, and
which rooms it uses. Files that the page names (the walks, the tables of what to touch) are checked to exist.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "halfwave"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- map: drawn by docs/architecture.py -->", "<!-- end of the map -->"
WALKS = {"## From a dataset file to `metrics.csv`": 16, "## From a policy to a matrix product": 9}
"""Headings of the walks, and how many files each may pass."""
ADDITIONS = {"model": 3, "dataset": 3, "format": 2, "experiment": 2, "option": 1}
"""How many files an addition of each kind may touch."""


@dataclass(frozen=True)
class Room:
    """A package, or the modules at the root, with what it imports of the others."""

    name: str
    says: str
    files: int
    uses: frozenset[str]


def rooms() -> list[Room]:
    """Every room, each after those that it uses."""
    found = {path.name: _room(path) for path in sorted(SOURCE.iterdir()) if (path / "__init__.py").exists()}
    ordered: list[Room] = []
    while len(ordered) < len(found):
        placed = {room.name for room in ordered}
        ready = [room for room in found.values() if room.name not in placed and room.uses <= placed]
        if not ready:
            rest = ", ".join(sorted(set(found) - placed))
            raise SystemExit(f"the rooms {rest} import each other in a circle")
        ordered += sorted(ready, key=lambda room: room.name)
    return ordered


def _room(path: Path) -> Room:
    files = sorted(path.rglob("*.py"))
    trees = [ast.parse(file.read_text()) for file in files]
    names = {name for tree in trees for name in _imported(tree)}
    packages = {other.name for other in SOURCE.iterdir() if (other / "__init__.py").exists()}
    says = ast.get_docstring(ast.parse((path / "__init__.py").read_text())) or "?"
    uses = frozenset(names & packages - {path.name})
    return Room(path.name, says.splitlines()[0].rstrip("."), len(files), uses)


def _imported(tree: ast.AST) -> set[str]:
    """The rooms that a module imports when it runs; imports for type checking alone do not count."""
    skipped = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.unparse(test.test)
        for node in ast.walk(test)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "halfwave":
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("halfwave.")}
    return names


def draw() -> str:
    """The map as a table, from the ground up."""
    found = rooms()
    rows = [
        f"| `{room.name}` | {room.says} | {room.files} | {', '.join(_direct(room, found)) or '-'} |" for room in found
    ]
    total = f"{sum(room.files for room in found)} files in {len(found)} rooms."
    return "\n".join([
        "| room | what it holds | files | stands on |", "| --- | --- | --- | --- |", *rows, "", total
    ])  # fmt: skip


def _direct(room: Room, found: list[Room]) -> list[str]:
    """The rooms it uses, without those that another of them uses already."""
    by_name = {other.name: other for other in found}

    def below(name: str) -> set[str]:
        used = by_name[name].uses
        return set(used).union(*(below(other) for other in used)) if used else set()

    return sorted(name for name in room.uses if not any(name in below(other) for other in room.uses))


def problems(page: str) -> list[str]:
    """What the page says that the code does not."""
    found = [f"{name} is named and is not there" for name in _named(page) if not _exists(name)]
    if draw() not in page:
        found.append("the map is not what the imports are: run `python docs/architecture.py`")
    for heading, most in WALKS.items():
        steps = len(re.findall(r"^\d+\. ", _section(page, heading), re.MULTILINE))
        if not 0 < steps <= most:
            found.append(f"{heading} has {steps} steps, at most {most} are promised")
    for kind, most in ADDITIONS.items():
        touched = re.search(rf"^\| an? {kind} \| (.*?) \|", page, re.MULTILINE)
        if touched is None or not 0 < len(re.findall(r"`[^`]+`", touched[1])) <= most:
            found.append(f"to add a {kind} must touch 1 to {most} files")
    return found


def _named(page: str) -> list[str]:
    """Paths in backquotes that look like files of the package."""
    return [name for name in re.findall(r"`([a-z_/]+\.py)`", page) if "NAME" not in name]


def _exists(name: str) -> bool:
    return any((base / name).exists() for base in (SOURCE, ROOT))


def _section(page: str, heading: str) -> str:
    _, _, rest = page.partition(heading + "\n")
    return rest.split("\n## ")[0]


def main() -> int:
    page = PAGE.read_text()
    if "--check" in sys.argv[1:]:
        found = problems(page)
        print("\n".join(found) or "docs/architecture.md is what the code is")
        return 1 if found else 0
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{draw()}\n\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
