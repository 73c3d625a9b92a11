"""What tyro says in a box, in one line: which option, what it takes, what was given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from halfwave.commands.options import Option
from halfwave.errors import UsageError, nearest


def check_flags(given: Sequence[str], options: Sequence[Option]) -> None:
    """UsageError for options that the command does not have, with the one that was probably meant."""
    flags = [option.flag for option in options if not option.positional]
    accepted = {*flags, *(f"--no-{option.flag[2:]}" for option in options if option.is_switch), "--"}
    asked = [a.partition("=")[0].replace("_", "-") for a in given if re.match(r"--|-[a-zA-Z]", a)]
    unknown = [flag for flag in asked if flag not in accepted]
    if unknown:
        listed = ", ".join(f"{flag}{nearest(flag, flags)}" for flag in unknown)
        raise UsageError(f"Unrecognized options: {listed}; --help lists what there is")


def explain(box: str, known: Sequence[Option]) -> str:
    """The line for a box of tyro's about a command with these options."""
    text = re.sub(r"[╭╮╰╯│]", " ", re.sub(r"╭─.*─╮", "", box))
    parts = [" ".join(part.split()) for part in re.split(r"[─-]{3,}", text)]
    said = "; ".join(part for part in parts if part and not _HEADING.match(part))
    options = {name: o for o in known for name in (o.flag, o.name, o.metavar)}
    for pattern, put in _EXPLAINED.items():
        found = re.search(pattern, said)
        if found is not None:
            return put(found, options)
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
