"""Writes ci-requirements.txt: every package that the tests need, at its pinned version, with the hash of its file.

    python benchmarks/lock_requirements.py
    pip install --require-hashes --no-deps -r ci-requirements.txt     # what was tested, byte by byte

pip resolves `.[test]` under constraints.txt without installing anything; the hashes are those of the files that it
would take for this Python on this system.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "ci-requirements.txt"


def resolved() -> list[dict[str, Any]]:
    """What pip would install, the project itself left out."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        wanted = ["-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[test]"]
        subprocess.run([sys.executable, "-m", "pip", "install", *asked, *wanted], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [item for item in found if item["metadata"]["name"] != "halfwave"]


def line(item: dict[str, Any]) -> str:
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{item['metadata']['name']}=={item['metadata']['version']} --hash=sha256:{digest}"


def main() -> None:
    head = (
        f"# Written by benchmarks/lock_requirements.py for Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}:\n# pip install --require-hashes --no-deps -r ci-requirements.txt\n"
    )
    lines = sorted(map(line, resolved()), key=str.lower)
    OUT.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
