"""A name means one thing: classes of the library do not share names, and the spectral roles stand once."""

import ast
from collections import Counter
from pathlib import Path

import halfwave
from halfwave.precision import ROLES, SPECTRAL_ROLES

ROOT = Path(halfwave.__file__).parent
LOCAL = ("experiments", "commands")
"""A file there is a world of its own, which nobody imports: each may have its `Trial` or `Setting`."""
TWICE = {"Engine"}
"""The trainer's, and that of a transform."""


def trees():
    for path in ROOT.rglob("*.py"):
        yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def test_no_two_classes_have_one_name():
    names = Counter(
        node.name
        for path, tree in trees()
        if path.parts[0] not in LOCAL
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} <= TWICE


def test_the_spectral_roles_stand_once():
    assert set(ROLES) - set(SPECTRAL_ROLES) == {"pointwise"}
    places = [
        str(path)
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple) and tuple(getattr(e, "value", None) for e in node.elts) == SPECTRAL_ROLES
    ]
    assert places == ["precision/policy.py"]
