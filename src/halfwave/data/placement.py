"""Placement: the domain of a dataset, and who says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from halfwave.data.registry import GENERATORS
from halfwave.domains import Domain, default_domain, domain_from_dict, domain_named
from halfwave.errors import InputError


@dataclass(frozen=True)
class Placement:
    """Where a dataset's fields live; `origin` is declared (by the file or its format), given (by the user) or default.

    The user has the last word: a file may be wrong, and a format may say where points lie but not what is beyond them.
    """

    domain: Domain
    origin: Literal["declared", "given", "default"] = "declared"

    def to_dict(self) -> dict[str, Any]:
        """For the record of a run."""
        return {**self.domain.to_dict(), "origin": self.origin}

    def __str__(self) -> str:
        return f"{self.domain} ({self.origin})"


def place(declared: Domain | None, asked: str | None, axes: int, path: Path) -> Placement:
    """The placement of fields with `axes` grid axes; sides that the user does not give are those of the file."""
    try:
        if asked is not None:
            return Placement(domain_named(asked, axes, getattr(declared, "lengths", None)), "given")
        if declared is not None:
            declared.check_grid((1,) * axes)
            return Placement(declared, "declared")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Placement(default_domain(axes), "default")


def declared_domain(metadata: Mapping[str, Any], path: Path) -> Domain | None:
    """What the metadata of one of our files say; in files of before domains, the generator that they name."""
    if "domain" not in metadata:
        return _domain_of_generator(metadata)
    try:
        return domain_from_dict(metadata["domain"])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _domain_of_generator(metadata: Mapping[str, Any]) -> Domain | None:
    kind, known = GENERATORS.get(str(metadata.get("name"))), metadata.get("parameters")
    if kind is None or not isinstance(known, Mapping):
        return None
    try:
        domain: Domain = kind(**{f.name: known[f.name] for f in fields(kind) if f.name in known}).domain
    except (InputError, TypeError):  # parameters that the generator never had
        return None
    return domain
