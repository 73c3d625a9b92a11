"""What geometry data have is the domain's to say: nobody reads it off a dataset's name or a model's class."""

import ast
from pathlib import Path

import pytest

import halfwave
from halfwave.data import GENERATORS
from halfwave.models import MODELS

ROOT = Path(halfwave.__file__).parent
# All but those that make models by name (`models`), from a peer's (`interop`), or declare problems (`recipes`).
ROOMS = tuple(sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"models", "interop", "recipes"}))


def decisions(tree):
    """Comparisons with the name of a generator, and tests for the class of a model."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            constants = [leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)]
            yield from (value for value in constants if value in GENERATORS)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from (leaf.id for leaf in ast.walk(node.args[1]) if isinstance(leaf, ast.Name) and leaf.id in MODELS)


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_decides_a_geometry(room):
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    found = {file.name: list(decisions(ast.parse(file.read_text(encoding="utf-8")))) for file in files}
    assert {name: names for name, names in found.items() if names} == {}


def test_the_test_sees_what_it_looks_for():
    seen = 'if name == "shallow-water": pass\nif kind in ("car", 1): pass\nisinstance(model, (GINO, UNet))'
    assert list(decisions(ast.parse(seen))) == ["shallow-water", "car", "GINO", "UNet"]
