"""The options of a command as they are shown and read: grouped, each with its text and the value that it will take.

A command is a flat dataclass; the text of an option is the docstring under its field (or the field's metadata "help").
Where that ends with "by default ...", these words are its default, unless the command knows the value: its class method
`known`, where it has one, gives values by option for the command object of a call, or for None where there is none yet.
"""

from __future__ import annotations

import ast
import inspect
import io
import os
import re
import shutil
import textwrap
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from halfwave.errors import InputError, UsageError, nearest

WIDTH = 80
HELP = ("-h", "--help")
GROUPS: dict[str, tuple[str, ...]] = {
    "data": (
        "data", "test_data", "n_train", "n_test", "subsample", "resolution", "steps", "domain", "x_key", "y_key",
        "channel_axis", "in_memory", "parameters", "samples", "grid",
    ),
    "model": ("arguments", "init_from", "latent_resolution", "features", "speed", "graph_cache", "backend"),
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
_FEW = 12
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
        return _bare(self.annotation) is bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it takes, where they are few and known."""
        kind = _bare(self.annotation)
        return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()

    @property
    def metavar(self) -> str | None:
        """What stands for its value; None for choices and switches, which say themselves what they take."""
        if self.positional and self.name in _PLACES:
            return _PLACES[self.name] if self.default is MISSING else f"[{_PLACES[self.name]}]"
        return _VALUES.get(self.name) or _metavar(_bare(self.annotation))

    def hint(self, known: Mapping[str, Any]) -> str:
        """The value that it will take, in brackets."""
        for value in (known.get(self.name), self.default):
            if value not in _NOTHING:
                return f"(default: {shown(value)})"
        return f"(default: {self.words})" if self.words else "(optional)"


@cache
def options_of(command: type) -> tuple[Option, ...]:
    """Every option of a command, in the order of its fields."""
    hints, docs = get_type_hints(command, include_extras=True), attribute_docs(command)
    return tuple(_option(f, hints[f.name], docs.get(f.name, "")) for f in fields(command))


def read(command: type, arguments: Sequence[str], prog: str) -> Any:
    """The command object of its arguments; UsageError in one line, or SystemExit after --help."""
    options = options_of(command)
    if any(argument in HELP for argument in arguments):
        print(help_of(command, [argument for argument in arguments if argument not in HELP], prog))
        raise SystemExit(0)
    given = _switched(arguments, options)
    _check_flags(given, options)
    return _parse(command, given, prog)


def help_of(command: type, arguments: Sequence[str], prog: str) -> str:
    """The page of --help, with the values that the options take beside these arguments."""
    written = io.StringIO()
    interface = build_interface(command, _known(command, arguments, prog))
    with _columns(), redirect_stdout(written), _quiet(), suppress(SystemExit):
        tyro.cli(interface, args=["--help"], prog=prog, config=(tyro.conf.DisallowNone,))
    text = re.sub(r"(?m)^ (\w+) options *$", r" \1", written.getvalue())
    return "\n".join(part.rstrip() for line in text.rstrip().splitlines() for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """tyro leaves the lines of a description as long as they are."""
    return textwrap.wrap(line, WIDTH) if len(line.rstrip()) > WIDTH else [line]


def build_interface(command: type, known: Mapping[str, Any]) -> type:
    """The command for tyro: a dataclass with one inside for each group, whose options keep their plain names."""
    grouped = _grouped(options_of(command))
    parts = [
        (group, kind := make_dataclass(group, [_field(option, known) for option in found]), field(default_factory=kind))
        for group, found in grouped.items()
        if group
    ]
    built = make_dataclass(command.__name__, [*(_field(option, known) for option in grouped[""]), *parts])
    built.__doc__ = inspect.cleandoc(command.__doc__ or "")
    return built


def _grouped(options: Sequence[Option]) -> dict[str, list[Option]]:
    """Options by their headings, "" for none: a short page needs no headings, and one option no heading of its own."""
    found = {group: [option for option in options if option.group == group] for group in GROUPS}
    kept = {group: own for group, own in found.items() if len(own) > 1 and len(options) > _FEW}
    under = {option.name for own in kept.values() for option in own}
    others = sorted((option for option in options if option.name not in under), key=lambda o: o.default is not MISSING)
    return {"": others, **kept}


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


@cache
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


def _field(option: Option, known: Mapping[str, Any]) -> tuple[str, Any, Any]:
    hint = None if option.default is MISSING else option.hint(known)
    settings = tyro.conf.arg(
        name=option.name.replace("_", "-"),
        prefix_name=False,
        help=option.text,
        metavar=option.metavar,
        help_behavior_hint=hint,
    )
    # Without None, which stands for what nobody gave and is no value to give.
    kind = _bare(option.annotation) if option.default is None else option.annotation
    marks = [settings, *([tyro.conf.FlagCreatePairsOff] if option.is_switch and option.default is False else [])]
    default = field() if option.default is MISSING else field(default=option.default)
    return option.name, Annotated[(kind, *marks)], default


def _parse(command: type, given: Sequence[str], prog: str) -> Any:
    """By tyro, whose boxes of explanations become one line."""
    said = io.StringIO()
    try:
        with _quiet(), redirect_stderr(said):
            found: Any = tyro.cli(build_interface(command, {}), args=given, prog=prog, config=(tyro.conf.DisallowNone,))
    except SystemExit as exit:
        if exit.code != 2:
            raise
        raise UsageError(f"{prog.removeprefix('halfwave ')}: {_one_line(said.getvalue(), command)}") from None
    values = dict(_flat(found))
    renamed = {f.metadata.get("option", f.name): f.name for f in fields(command)}
    return command(**{renamed[name]: value for name, value in values.items()})


def _one_line(box: str, command: type) -> str:
    """What tyro says in a box, in one line: which option, what it takes, what was given."""
    text = re.sub(r"[╭╮╰╯│]", " ", re.sub(r"╭─.*─╮", "", box))
    parts = [" ".join(part.split()) for part in re.split(r"[─-]{3,}", text)]
    said = "; ".join(part for part in parts if part and not _HEADING.match(part))
    options = {name: o for o in options_of(command) for name in (o.flag, o.name, o.metavar)}
    for pattern, explain in _EXPLAINED.items():
        found = re.search(pattern, said)
        if found is not None:
            return explain(found, options)
    return said


def _wrong_value(found: re.Match[str], options: Mapping[Any, Option]) -> str:
    option = options.get(found[1])
    expected = option.metavar if option is not None else None
    return f"{found[1]} must be {expected or 'another value'}, got {found[2]}"


def _wrong_choice(found: re.Match[str], options: Mapping[Any, Option]) -> str:
    option = options.get(found[2])
    if option is None:
        return found[0]
    return f"{found[2]} must be one of {', '.join(option.choices)}, got {found[1]!r}{nearest(found[1], option.choices)}"


def _no_value(found: re.Match[str], options: Mapping[Any, Option]) -> str:
    option = options.get(found[1])
    return f"{found[1]} needs a value: {(option.metavar if option else None) or 'one of its choices'}"


def _no_place(found: re.Match[str], options: Mapping[Any, Option]) -> str:
    needed = [o for o in dict.fromkeys(options.values()) if o.default is MISSING]
    missing = [o for o in needed if re.search(rf"(^|[\s:]){re.escape(_called(o))}\s", found[0])]
    return "; ".join(
        f"{_called(o)} is missing: {o.text[:1].lower()}{o.text[1:].rstrip('.')}" for o in missing or needed
    )


def _called(option: Option) -> str:
    return option.metavar or "{" + ",".join(option.choices) + "}"


_HEADING = re.compile(r"(For full helptext.*|[A-Z][a-z]+( [a-z]+){0,2})$")
_EXPLAINED = {
    r"Error parsing (\S+): .*\[('.*?')\]": _wrong_value,
    r"[Ii]nvalid choice '(.*?)' for argument '(\S+?)'.*": _wrong_choice,
    r"Missing value for argument '(\S+?)'": _no_value,
    r"Missing from .*": _no_place,
}


def _flat(found: Any) -> Iterator[tuple[str, Any]]:
    for own in fields(found):
        value = getattr(found, own.name)
        if own.name in GROUPS and type(value).__name__ == own.name:
            yield from _flat(value)
        else:
            yield own.name, value


def _known(command: type, arguments: Sequence[str], prog: str) -> Mapping[str, Any]:
    """What the command knows of its defaults, from the other arguments where they make a command object."""
    if not hasattr(command, "known"):
        return {}
    try:
        return command.known(_parse(command, _switched(arguments, options_of(command)), prog))
    except InputError:
        return command.known(None)


def _switched(arguments: Sequence[str], options: Sequence[Option]) -> list[str]:
    """``--compile True`` and ``--compile False`` as switches: ``--compile``, ``--no-compile``."""
    switches = {option.flag for option in options if option.is_switch}
    given: list[str] = []
    for argument in arguments:
        if given and given[-1] in switches and argument in ("True", "False"):
            given[-1] = given[-1] if argument == "True" else f"--no-{given[-1][2:]}"
        else:
            given.append(argument)
    return given


def _check_flags(given: Sequence[str], options: Sequence[Option]) -> None:
    """UsageError for options that the command does not have, with the one that was probably meant."""
    flags = [option.flag for option in options if not option.positional]
    accepted = {*flags, *(f"--no-{option.flag[2:]}" for option in options if option.is_switch), "--"}
    asked = [a.partition("=")[0].replace("_", "-") for a in given if re.match(r"--|-[a-zA-Z]", a)]
    unknown = [flag for flag in asked if flag not in accepted]
    if unknown:
        listed = ", ".join(f"{flag}{nearest(flag, flags)}" for flag in unknown)
        raise UsageError(f"Unrecognized options: {listed}; --help lists what there is")


def _bare(annotation: Any) -> Any:
    """Without Annotated and without None."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return _bare(parts[0]) if len(parts) == 1 else annotation
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


@contextmanager
def _columns() -> Iterator[None]:
    """tyro asks the environment how wide a page is: no wider than a reader's eye follows."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


@contextmanager
def _quiet() -> Iterator[None]:
    """A switch that was not given is None, which tyro takes as it is and remarks upon."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The field `", category=UserWarning)
        yield
