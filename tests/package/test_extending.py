"""docs/architecture.md promises how little it takes to add something: each promise kept, from outside the library."""

import subprocess
import sys
from pathlib import Path


def test_additions_from_outside() -> None:
    """In a process of its own: what is made known stays known, and other tests list what there is."""
    toy = Path(__file__).parent / "toy_extension.py"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", toy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
