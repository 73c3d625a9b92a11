"""What a user is told: the one exception that means that what was given cannot be used, and text safe to show."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class InputError(ValueError):
    """Bad input, said in one line: what was given and what is accepted.

    The command line prints the message without a traceback and exits with code 1. Its text is `printable`: names in it
    may come from a file that someone else has made.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(*(printable(part) if isinstance(part, str) else part for part in parts))


class UsageError(InputError):
    """A command called with something it does not know: an option, a name, a value. Exit code 2."""


class ArgumentError(InputError, TypeError):
    """An argument that a call does not take: bad input to a user, a TypeError to Python."""


def printable(text: str) -> str:
    """The text as a terminal may be given it: whatever is not to be seen, such as an escape sequence, is spelled out.

    The one sanitiser of all that is printed, shown or drawn. Line ends and tabs stay. Half a character, as the name of
    a file may have it that is no UTF-8, is spelled out too: it could not be encoded.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def drawable(text: str) -> str:
    """The text as a picture may be given it: printable, and its dollars are dollars and no mathematics."""
    return printable(text).replace("$", r"\$")


def described(value: Any) -> str:
    """A value for a message: an array or a tensor by its shape and type, anything else as it prints, cut short."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        sizes = " x ".join(map(str, value.shape)) or "scalar"
        return f"{type(value).__name__} {sizes} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {described(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple) and any(hasattr(part, "shape") for part in value):
        return f"{type(value).__name__} of {', '.join(map(described, value[:4]))}"
    if hasattr(value, "__getitem__") and hasattr(value, "__len__") and not isinstance(value, list | tuple | str):
        return f"{type(value).__name__} of {len(value)} items"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def nearest(name: str, accepted: Iterable[str]) -> str:
    """`` (did you mean 'epochs'?)`` for a name that looks like an accepted one; nothing for one that does not."""
    found = get_close_matches(name, list(accepted), n=1, cutoff=0.7)
    return f" (did you mean {found[0]!r}?)" if found else ""
