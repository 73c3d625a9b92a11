"""What the library imports, it declares: a dependency, or an extra. What only tests need is not among them."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import pytest

    pytest.skip("reads pyproject.toml with tomllib", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_TESTS = ("docs", "test")
# Parts of torch's own installation and of matplotlib's, under names of their own.
SAME_AS = {"mpl_toolkits": "matplotlib", "torchgen": "torch"}


def normal(name):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", name)[0]).lower()


def declared():
    """Distributions that a user gets, by the product or by one of its extras."""
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *(name for extra in extras if extra not in OF_TESTS for name in extras[extra])]
    return {normal(name) for name in asked}


def imported():
    """Top-level modules outside the standard library, each with a place that imports it."""
    found = {}
    for path in sorted((ROOT / "src" / "halfwave").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                if top not in sys.stdlib_module_names and top != "halfwave":
                    found.setdefault(top, f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_every_import_is_of_a_declared_dependency():
    owners = packages_distributions()
    known = declared()
    for module, place in imported().items():
        name = SAME_AS.get(module, module)
        distributions = {normal(owner) for owner in owners.get(name, [name])}
        assert distributions & known, f"{place} imports {module}, of {sorted(distributions)}: not in pyproject.toml"


def test_every_dependency_is_imported():
    """One that nothing imports is a risk for nothing; a transitive one is declared by whoever needs it."""
    owners = packages_distributions()
    used = {normal(owner) for module in imported() for owner in owners.get(SAME_AS.get(module, module), [module])}
    assert {normal(name) for name in PROJECT["dependencies"]} <= used


def test_what_tests_need_is_no_dependency():
    tests = {normal(name) for extra in OF_TESTS for name in PROJECT["optional-dependencies"][extra]} - {"halfwave"}
    product = {normal(name) for name in PROJECT["dependencies"]}
    assert not tests & product
