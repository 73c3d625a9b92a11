"""The code behind a number: a digest of the source that measuring it runs, so that changed code is seen.

From a function the imports are followed: within `halfwave.experiments` definition by definition (a table or a verdict
says nothing about a number), elsewhere file by file, and through a package's door to the file that defines the name.
Comments, docstrings and layout do not count, nor do the rooms that only show results.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_SHOWING = tuple(
    f"halfwave.{room}" for room in ("experiments.provenance", "report", "display", "commands", "tables", "cli")
)
_BY_DEFINITION = "halfwave.experiments."
Definition = tuple[str, str | None]
"""A module, and a name at its top level; None for all of the module."""


def code_digest(*measures: Callable[..., Any] | str) -> str:
    """Digest of all source that functions (or modules, by name) of this library run."""
    return _digest(tuple(_definition_of(measure) for measure in measures))


@lru_cache(maxsize=256)  # a process runs the code that it was started with
def _digest(roots: tuple[Definition, ...]) -> str:
    digest = hashlib.sha256()
    for module, name in sorted(reached(roots), key=str):
        digest.update(f"{module} {name}\n{_text(module, name)}\n".encode())
    return digest.hexdigest()[:16]


def _definition_of(measure: Callable[..., Any] | str) -> Definition:
    if isinstance(measure, str):
        return measure, None
    module, name = measure.__module__, getattr(measure, "__qualname__", "<lambda>").split(".")[0]
    known = module.startswith(_BY_DEFINITION) and name in _module(module).defined
    return module, name if known else None


def reached(roots: Iterable[Definition]) -> set[Definition]:
    """All definitions and modules that these lead to."""
    found: set[Definition] = set()
    waiting = [root for root in roots if _is_ours(root[0])]
    others = {root for root in roots if not _is_ours(root[0])}
    while waiting:
        definition = waiting.pop()
        if definition not in found:
            found.add(definition)
            waiting.extend(_next(*definition))
    return found | others


@lru_cache(maxsize=4096)  # experiments lead to the same places
def _next(module: str, name: str | None) -> tuple[Definition, ...]:
    source = _module(module)
    if name is None:
        return tuple(found for imported in source.imported.values() for found in _resolve(*imported))
    used = {node.id for node in ast.walk(source.defined[name]) if isinstance(node, ast.Name)}
    led = [found for imported in used & source.imported.keys() for found in _resolve(*source.imported[imported])]
    return (*led, *((module, other) for other in used & source.defined.keys()))


def _resolve(module: str, name: str | None) -> Iterator[Definition]:
    """Where an import leads, through the doors of packages."""
    if not _is_ours(module):
        return
    if name is not None and _path(f"{module}.{name}") is not None:
        yield from _resolve(f"{module}.{name}", None)
    elif name is not None and name in _module(module).imported and name not in _module(module).defined:
        yield from _resolve(*_module(module).imported[name])
    elif module.startswith(_BY_DEFINITION) and name in _module(module).defined:
        yield module, name
    else:
        yield module, None


def _is_ours(module: str) -> bool:
    shown = any(module == room or module.startswith(f"{room}.") for room in _SHOWING)
    return (module == "halfwave" or module.startswith("halfwave.")) and not shown and _path(module) is not None


@lru_cache(maxsize=4096)
def _path(module: str) -> Path | None:
    base = _ROOT.joinpath(*module.split(".")[1:])
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()), None)


@dataclass
class _Source:
    """A module without its docstrings: what it defines at its top level, and what it imports under which name."""

    tree: ast.Module
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, Definition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.tree.body:
            for name in _names(node):
                self.defined[name] = node
        for found in ast.walk(self.tree):
            if isinstance(found, ast.ImportFrom) and found.module and not found.level:
                self.imported |= {a.asname or a.name: (found.module, a.name) for a in found.names}
            elif isinstance(found, ast.Import):
                self.imported |= {a.asname or a.name.split(".")[0]: (a.name, None) for a in found.names}


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


@lru_cache(maxsize=1024)
def _module(name: str) -> _Source:
    path = _path(name)
    assert path is not None, name
    return _Source(without_words(path.read_text(encoding="utf-8")))


def without_words(source: str) -> ast.Module:
    """The syntax tree without docstrings; comments and layout are not in it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [n for n in body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
            node.body = kept or [ast.Pass()] if not isinstance(node, ast.Module) else kept  # type: ignore[attr-defined]
    return tree


@lru_cache(maxsize=4096)
def _text(module: str, name: str | None) -> str:
    if not _is_ours(module):  # an experiment of somebody else's
        return inspect.getsource(sys.modules[module]) if module in sys.modules else ""
    source = _module(module)
    return ast.unparse(source.tree if name is None else source.defined[name])
