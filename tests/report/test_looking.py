"""Where there is no browser, nobody believes that the page was looked at."""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import test_browser
from browser import MISSING

ROOT = Path(__file__).parents[2]
CONFTEST = ROOT / "tests" / "conftest.py"
LINE = "PAGE NOT LOOKED AT: no Chromium on PATH"


def without_a_browser(folder, **scripts):
    """An environment with these scripts on PATH and the tools that `.ci/run` needs; no browser."""
    for name in {"bash", "dirname", "env", "id", "sh", "timeout"} - scripts.keys():
        (folder / name).symlink_to(shutil.which(name))
    for name, script in scripts.items():
        with open(folder / name, "x") as file:  # a new file: nothing is written through a link
            file.write(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": str(folder)}


def test_pytest_says_so(request):
    """The summary at the end names the page's tests, whoever else was skipped."""
    [ours] = [p for p in request.config.pluginmanager.get_plugins() if getattr(p, "__file__", "") == str(CONFTEST)]
    said = []
    reasons = ("Skipped: no GPU", f"Skipped: {MISSING}", f"Skipped: {MISSING}")
    terminal = SimpleNamespace(
        getreports=lambda outcome: [SimpleNamespace(longrepr=("a file", 1, reason)) for reason in reasons],
        section=lambda text, **_: said.append(text),
    )
    ours.pytest_terminal_summary(terminal)
    assert said == [MISSING]
    assert MISSING.startswith(LINE)
    assert test_browser.pytestmark.kwargs["reason"] == MISSING


def test_ci_tries_to_install_one_says_so_and_fails_as_the_tests_do(tmp_path):
    tried = tmp_path / "tried"
    environment = without_a_browser(
        tmp_path, id="echo 0", make="echo ran $*; exit $CODE", **{"apt-get": f"echo >> {tried}; exit 1"}
    )
    for code in ("0", "3"):
        found = subprocess.run(
            [ROOT / ".ci" / "run"], env={**environment, "CODE": code}, capture_output=True, text=True
        )
        assert found.returncode == int(code), found.stderr
        assert "will not be looked at" in found.stdout
        assert "ran test" in found.stdout
        assert (LINE in found.stdout.splitlines()[-1]) == (code == "0")
    assert tried.exists()
