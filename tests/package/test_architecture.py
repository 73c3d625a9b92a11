"""docs/architecture.md is what the code is: its map is drawn from the imports, and what it names is there."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "architecture.py"


def test_the_page_is_what_the_code_is() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
