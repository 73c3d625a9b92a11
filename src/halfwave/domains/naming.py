"""Domains by name and from JSON, and the one of data that declare none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from halfwave.domains.box import Box
from halfwave.domains.cloud import Cloud
from halfwave.domains.domain import Domain
from halfwave.domains.sphere import Sphere
from halfwave.domains.torus import Torus
from halfwave.errors import InputError

_KINDS: Mapping[str, type[Domain]] = MappingProxyType({kind.kind: kind for kind in (Box, Torus, Sphere, Cloud)})
_WITH_LENGTHS: Mapping[str, Callable[[tuple[float, ...]], Domain]] = MappingProxyType(
    {"torus": Torus, "box": Box, "box-cells": lambda lengths: Box(lengths, "cells")}
)
_WITHOUT: Mapping[str, Domain] = MappingProxyType(
    {"sphere": Sphere(), "sphere-gauss": Sphere("legendre-gauss"), "cloud": Cloud()}
)
NAMES = (*_WITH_LENGTHS, *_WITHOUT)
"""What `domain_named` takes."""


def default_domain(dimension: int) -> Domain:
    """Of fields that declare none: the unit box, with points at the centres of its cells."""
    return Box((1.0,) * dimension, "cells")


def domain_named(text: str, dimension: int, lengths: tuple[float, ...] | None = None) -> Domain:
    """The domain called `text` of a grid with `dimension` axes (0: points).

    A name may have sides: ``torus:6.2832`` (all of them) or ``box:1x2``. Without, they are `lengths`, or 1.
    """
    name, sides = read_name(text)
    if name in _WITHOUT:
        domain = _WITHOUT[name]
    else:
        given = sides or lengths or (1.0,)
        domain = _WITH_LENGTHS[name](given * dimension if len(given) == 1 and dimension else given)
    if len(domain.axes) != dimension:
        what = f"a grid of {dimension} axes" if dimension else "point clouds"
        raise InputError(f"domain {text!r} does not fit {what}")
    return domain


def name_of(domain: Domain) -> str:
    """What `domain_named` makes this domain of, sides included."""
    sides = "x".join(map(repr, getattr(domain, "lengths", ())))
    return f"{domain.name}:{sides}" if sides else domain.name


def read_name(text: str) -> tuple[str, tuple[float, ...]]:
    """A name that `domain_named` takes, and the sides that are in it; InputError for any other."""
    name, _, sides = text.partition(":")
    try:
        lengths = tuple(float(side) for side in sides.split("x")) if sides else ()
    except ValueError:
        raise InputError(f"unknown sides of domain {text!r}; accepted: as in torus:6.2832 or box:1x2") from None
    if name not in NAMES or (lengths and name in _WITHOUT):
        raise InputError(
            f"unknown domain {text!r}; accepted: {', '.join(NAMES)}; torus and boxes with sides as box:1x2"
        )
    return name, lengths


def domain_from_dict(values: Any) -> Domain:
    """What `Domain.to_dict` gave."""
    if not isinstance(values, Mapping) or values.get("kind") not in _KINDS:
        raise InputError(f"not a domain: {values!r}; a 'kind' is expected, one of {', '.join(_KINDS)}")
    settings = {name: value for name, value in values.items() if name != "kind"}
    try:
        return _KINDS[values["kind"]](**settings)
    except TypeError:
        raise InputError(f"not the settings of a {values['kind']}: {settings!r}") from None
