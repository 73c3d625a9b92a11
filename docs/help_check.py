"""Reads every page of --help as a user does, and lists what is wrong with it.

    python docs/help_check.py            # exits with 1 where a page has a fault

A page has at most 80 columns. Every option has a text and says which value it takes when nobody gives one: never
"None", and for a recipe or a dataset that is named the number itself.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator

from halfwave.cli import COMMANDS, run

WIDTH = 80
NAMED = (
    "train darcy", "train navier-stokes", "train shallow-water", "train car", "train darcy-paper", "train fno",
    "plan darcy", "profile demo", "data darcy", "data burgers",
)  # fmt: skip
"""Pages beside those of the bare commands: of a recipe or a dataset."""
VAGUE = ("the recipe's", "the paper's)", "RECIPE", "NAME-RESOLUTION")
"""What must be a number or a path once the recipe is named."""
KNOWN = ("train ", "plan ", "profile ", "data ")


def pages() -> Iterator[tuple[str, str]]:
    """Each command line with the page that it prints."""
    for line in ("", *COMMANDS, *NAMED):
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            code = run([*line.split(), "--help"])
        yield line, written.getvalue() if code == 0 else ""


def entries(page: str) -> dict[str, str]:
    """Options and positionals of a page, with their texts."""
    found: dict[str, str] = {}
    name, told = "", False
    for line in page.splitlines():
        told = told or line.startswith(" ---")
        start = re.match(r"  (\S.*?)(?:  +(.*))?$", line) if told else None
        if start is not None:
            name = start[1]
            found[name] = start[2] or ""
        elif name and line.startswith("   "):
            found[name] = f"{found[name]} {line.strip()}".strip()
        else:
            name = ""
    return found


def faults(line: str, page: str) -> list[str]:
    """What is wrong with a page, in words."""
    found = [f"{len(row)} columns: {row}" for row in page.splitlines() if len(row) > WIDTH]
    listed = entries(page)
    if line and not listed:
        found.append("no options are listed")
    for name, text in listed.items():
        said = re.search(r"\((required|optional|default: .+)\)$", text)
        if name != "-h, --help" and (said is None or not text[: said.start()].strip()):
            found.append(f"{name} has no text or no default: {text!r}")
        if "None" in name or "None" in text:
            found.append(f"{name} says None: {text!r}")
        if line.startswith(KNOWN) and line != "train fno" and said and any(vague in said[0] for vague in VAGUE):
            found.append(f"{name} does not say its value: {text!r}")
    return [f"halfwave {line} --help: {fault}" for fault in found]


def main() -> int:
    count, found = 0, []
    for line, page in pages():
        count += len(entries(page))
        found += faults(line, page)
    print("\n".join([*found, f"{count} options on {len(COMMANDS) + len(NAMED) + 1} pages, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
