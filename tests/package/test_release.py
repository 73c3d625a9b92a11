"""A version is stated once for each reader, and all agree; pins of CI and of the bill are those of constraints.txt."""

import re
import sys
from pathlib import Path

import pytest

from halfwave.files import read_json

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import bill_of_materials  # noqa: E402


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
    pins = bill_of_materials.versions()
    locked = (ROOT / "ci-requirements.txt").read_text().splitlines()
    lines = [re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in locked if line[0] != "#"]
    assert all(lines)
    versions = {bill_of_materials.normal(line[1]): line[2].partition("+")[0] for line in lines}
    assert {name: pins.get(name) for name in versions} == versions


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the bill is for the Python of CI")
def test_the_bill_of_materials_is_whole_and_has_the_pinned_versions():
    """All that the product and its extras bring is in it, and nothing that only tests need."""
    billed = {part["name"]: part["version"].partition("+")[0] for part in read_json(ROOT / "sbom.json")["components"]}
    brought = set(bill_of_materials.closure()) - {"halfwave"}
    assert {"torch", "onnxruntime", "huggingface-hub"} <= brought <= set(billed), "make sbom"
    assert not {"neuraloperator", "wandb", "pytest"} & set(billed)
    pins = bill_of_materials.versions()
    assert {name: pins.get(name, version) for name, version in billed.items()} == billed, "make sbom"
