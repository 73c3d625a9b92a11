"""A version is stated once for each reader, and all agree; every pin of CI is that of constraints.txt."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def found(pattern, name):
    match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None, f"{name} has no {pattern}"
    return match[1]


def test_the_version_is_the_same_everywhere_and_has_its_changes():
    version = found(r'^version = "(.*)"', "pyproject.toml")
    assert found(r"^version: (.*)", "CITATION.cff") == version
    assert found(r"^## (\d\S*)", "CHANGELOG.md") == version


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the lock is for the Python of CI")
def test_the_lock_of_ci_has_the_pinned_versions_with_hashes():
    pins = dict(re.findall(r"^([\w.-]+)==([^;\s]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    pins = {_plain(name): version for name, version in pins.items()}
    locked = (ROOT / "ci-requirements.txt").read_text().splitlines()
    lines = [re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in locked if line[0] != "#"]
    assert all(lines)
    versions = {_plain(line[1]): line[2].partition("+")[0] for line in lines}
    assert {name: pins.get(name) for name in versions} == versions


def _plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()
