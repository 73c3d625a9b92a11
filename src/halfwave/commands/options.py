"""The options of a command: each with its text, its group, what it takes, and the value that it will take.

A command is a flat dataclass; the text of an option is the docstring under its field (or the field's metadata "help").
Where that ends with "by default ...", these words are its default, unless a call knows the value itself.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import re
import textwrap
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

GROUPS: dict[str, tuple[str, ...]] = {
    "data": (
        "data", "test_data", "n_train", "n_test", "subsample", "resolution", "steps", "domain", "x_key", "y_key",
        "channel_axis", "in_memory", "parameters", "samples", "grid",
    ),
    "model": ("arguments", "init_from", "latent_resolution", "features", "speed", "own_box", "graph_cache", "backend"),
    "time": ("horizon", "horizons", "history", "time_stride", "unroll", "residual", "noise", "recompute_steps"),
    "precision": (
        "precision", "policy", "phases", "dtype", "stabilizer", "loss_scaling", "on_nonfinite", "against", "format",
        "weights", "auto", "max_error", "max_bytes", "max_time", "alpha", "policies",
    ),
    "training": (
        "epochs", "batch_size", "batch", "learning_rate", "weight_decay", "optimizer", "scheduler", "augment",
        "loss", "area_weighted", "normalise", "clip", "accumulate", "patience", "seed", "seeds",
    ),
    "devices": (
        "accelerator", "devices", "device", "device_memory", "measure", "strategy", "mesh", "workers", "compile",
        "recompute",
    ),
    "records": (
        "out", "force", "json", "plot", "animation", "monitor", "checkpoint_every", "checkpoint_steps", "keep",
        "evaluate_every", "test_resolutions", "sort",
    ),
}  # fmt: skip
"""Options by what they are about, under the same heading in every command; the others stand under "options"."""
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
_PLACES = {"run_path": "RUN", "input": "IN", "output": "OUT", "name": "NAME", "recipe": "RECIPE", "runs": "RUN ..."}
_VALUES = {
    "arguments": "KEY=VALUE ...", "parameters": "KEY=VALUE ...", "run": "RUN", "precision": "NAME", "dtype": "NAME",
    "format": "NAME", "device": "NAME", "scale": "NAME", "stabilizer": "NAME", "backend": "NAME",
}  # fmt: skip
_NOTHING: tuple[Any, ...] = (None, "", (), {}, MISSING)
_TYPES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
_DEFAULT = re.compile(r"^(?P<text>.*?)[;:,.]? [Bb]y default (?P<words>[^.;]*(?:\.(?=\S)[^.;]*)*)\.?$", re.DOTALL)


@dataclass(frozen=True)
class Option:
    """One option or positional of a command, before anything is known of a call."""

    name: str
    annotation: Any
    default: Any
    text: str
    words: str
    positional: bool

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def group(self) -> str:
        return "" if self.positional else _GROUP_OF.get(self.name, "")

    @property
    def is_switch(self) -> bool:
        return bare_type(self.annotation) is bool

    @property
    def is_open_switch(self) -> bool:
        """A switch that takes words too: ``--compile``, ``--no-compile``, ``--compile auto``."""
        kind = bare_type(self.annotation)
        return get_origin(kind) in (Union, types.UnionType) and bool in get_args(kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it takes, where they are few and known."""
        kind = bare_type(self.annotation)
        kinds = [part for part in get_args(kind) if part is not bool] if self.is_open_switch else [kind]
        return tuple(str(value) for k in kinds if get_origin(k) is Literal for value in get_args(k))

    @property
    def metavar(self) -> str | None:
        """What stands for its value; None for choices and switches, which say themselves what they take."""
        if self.is_open_switch:
            return f"[{'|'.join(self.choices)}]"
        if self.positional and self.name in _PLACES:
            return _PLACES[self.name] if self.default is MISSING else f"[{_PLACES[self.name]}]"
        return _VALUES.get(self.name) or _metavar(bare_type(self.annotation))

    def hint(self, known: Mapping[str, Any]) -> str:
        """The value that it will take, in brackets."""
        for value in (known.get(self.name), self.default):
            if value not in _NOTHING:
                return f"(default: {shown(value)})"
        return f"(default: {self.words})" if self.words else "(optional)"


@functools.cache
def options_of(command: type) -> tuple[Option, ...]:
    """Every option of a command, in the order of its fields."""
    hints, docs = get_type_hints(command, include_extras=True), attribute_docs(command)
    return tuple(_option(f, hints[f.name], docs.get(f.name, "")) for f in fields(command))


def shown(value: Any) -> str:
    """A value in words: on and off, numbers without a tail, several with spaces between."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={str(part).replace(' ', '')}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(shown, value))
    return str(value)


@functools.cache
def attribute_docs(cls: type) -> dict[str, str]:
    """The docstrings under the fields of a class and of those above it."""
    found: dict[str, str] = {}
    for part in reversed(cls.__mro__):
        found |= _own_docs(part)
    return found


def _own_docs(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError):  # made at run time, or of the interpreter itself
        return {}
    found = {}
    for statement, after in pairwise(getattr(tree, "body", [])):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and is_text:
            found[statement.target.id] = inspect.cleandoc(str(after.value.value))
    return found


def _option(own: Field[Any], annotation: Any, doc: str) -> Option:
    text = " ".join((own.metadata.get("help") or doc).split())
    default = own.default if own.default_factory is MISSING else own.default_factory()
    split = _DEFAULT.match(text)
    words = split["words"].strip() if split else ""
    name = own.metadata.get("option", own.name)
    positional = any(
        mark in getattr(annotation, "__metadata__", ()) for mark in get_args(tyro.conf.Positional[int])[1:]
    )
    plain = f"{split['text'].rstrip('.')}." if split and not split["text"].endswith("...") else text
    return Option(name, annotation, default, split["text"] if split and plain == text else plain, words, positional)


def bare_type(annotation: Any) -> Any:
    """Without Annotated and without None."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return bare_type(parts[0]) if len(parts) == 1 else functools.reduce(operator.or_, parts)
    return annotation


def _metavar(kind: Any) -> str | None:
    if kind is bool or get_origin(kind) is Literal:
        return None
    if get_origin(kind) is tuple:
        parts = [part for part in get_args(kind) if part is not Ellipsis]
        several = " ..." if len(parts) < len(get_args(kind)) else ""
        return " ".join(_metavar(part) or "VALUE" for part in parts) + several
    if get_origin(kind) in (Union, types.UnionType):
        return "|".join(_metavar(part) or "|".join(map(str, get_args(part))) for part in get_args(kind))
    return _TYPES.get(kind)
