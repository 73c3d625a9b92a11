"""A command as tyro shows and reads it: its options under headings, each with the value that it will take.

A command may know values that depend on a call: its class method `known` gives them by option for the command object of
the call, or for None where the arguments make none yet.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import shutil
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import MISSING, field, fields, make_dataclass
from itertools import zip_longest
from typing import Annotated, Any

import tyro

from halfwave.commands.options import GROUPS, Option, bare_type, options_of
from halfwave.commands.usage_errors import check_flags, explain
from halfwave.errors import InputError, UsageError, printable

WIDTH = 80
_FEW = 12
HELP = ("-h", "--help")


def read(command: type, arguments: Sequence[str], prog: str) -> Any:
    """The command object of its arguments; UsageError in one line, or SystemExit after --help."""
    options = options_of(command)
    if any(argument in HELP for argument in arguments):
        print(printable(help_of(command, [argument for argument in arguments if argument not in HELP], prog)))
        raise SystemExit(0)
    given = _switched(arguments, options)
    check_flags(given, options)
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
    kind = bare_type(option.annotation) if option.default is None else option.annotation
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
        raise UsageError(f"{prog.removeprefix('halfwave ')}: {explain(said.getvalue(), options_of(command))}") from None
    values = dict(_flat(found))
    renamed = {f.metadata.get("option", f.name): f.name for f in fields(command)}
    return command(**{renamed[name]: value for name, value in values.items()})


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
    """``--force True`` and ``--force False`` as switches; switches that take words too, as tyro reads their values."""
    switches = {option.flag: option for option in options if option.is_switch}
    given: list[str] = []
    for argument in _worded(arguments, [option for option in options if option.is_open_switch]):
        switch = switches.get(given[-1]) if given and argument in ("True", "False") else None
        if switch is None:
            given.append(argument)
        elif argument == "False":
            given[-1:] = [] if switch.default is False else [f"--no-{switch.flag[2:]}"]
    return given


def _worded(arguments: Sequence[str], switches: Sequence[Option]) -> Iterator[str]:
    """``--compile`` and ``--no-compile`` as ``--compile True`` and ``--compile False``."""
    words = {switch.flag: (*switch.choices, "True", "False") for switch in switches}
    for argument, following in zip_longest(arguments, arguments[1:]):
        flag = argument.replace("--no-", "--", 1)
        if flag in words and flag != argument:
            yield from (flag, "False")
        else:
            yield argument
            if argument in words and following not in words[argument]:
                yield "True"


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
