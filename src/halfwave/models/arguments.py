"""Checks of constructor arguments that several models share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from halfwave.errors import ArgumentError, nearest


def argument_names(cls: type) -> list[str]:
    """Every argument of a constructor; where it hands the rest on, those of the one above too."""
    found: dict[str, None] = {}
    for part in cls.__mro__:
        if "__init__" not in vars(part):
            continue
        own = list(inspect.signature(vars(part)["__init__"]).parameters.values())[1:]
        found |= dict.fromkeys(p.name for p in own if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
        if all(p.kind is not p.VAR_KEYWORD for p in own):
            break
    return list(found)


def refuse_unknown(cls: type, given: Iterable[str]) -> None:
    """ArgumentError for a name that the constructor does not take: a typo, before its consequences."""
    accepted = argument_names(cls)
    for name in given:
        if name not in accepted:
            listed = ", ".join(accepted)
            raise ArgumentError(f"{cls.__name__} has no argument {name!r}{nearest(name, accepted)}: expected {listed}")


_MOST = {"layers": 1024, "levels": 16}
"""What is repeated more often than anyone means takes for ever to build; a level has twice the channels of the last."""


def check_counts(**counts: int) -> None:
    """ValueError unless every value is a positive integer, and no number of layers or levels beyond all use."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
        most = next((most for end, most in _MOST.items() if name.endswith(end)), value)
        if value > most:
            raise ValueError(f"{name} must be at most {most}, got {value}")


def refuse_complex(complex_data: bool) -> None:
    """ValueError for complex data, which models here take as pairs of real channels."""
    if complex_data:
        raise ValueError("complex_data=True is not supported: give real and imaginary parts as channels of their own")
