"""Every generator by its name, and the sizes that the paper uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from halfwave.data.ahmed import Ahmed
from halfwave.data.car import Car
from halfwave.data.darcy import Darcy
from halfwave.data.generator import Generator
from halfwave.data.navier_stokes import NavierStokes
from halfwave.data.shallow_water import ShallowWater
from halfwave.errors import InputError

GENERATORS: Mapping[str, type] = MappingProxyType({g.name: g for g in (Darcy, NavierStokes, ShallowWater, Car, Ahmed)})
"""Every generator by its name on the command line."""

PAPER_COUNTS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "darcy": (5000, 1000),
        "navier-stokes": (10_000, 2000),
        "shallow-water": (120, 20),
        "car": (500, 111),
        "ahmed": (500, 51),
    }
)
"""Samples for training and for testing in the paper; its resolutions are the generators' defaults."""


def build_generator(name: str, *, resolution: int | None = None, **parameters: Any) -> Generator:
    """The generator `name`; `resolution` is the number of points a side, of latitudes, or of a body's points."""
    if name not in GENERATORS:
        raise InputError(f"there is no dataset {name!r}; accepted: {', '.join(GENERATORS)}")
    kind = GENERATORS[name]
    accepted = [field.name for field in fields(kind)]
    if resolution is not None:
        parameters["resolution" if "resolution" in accepted else "points"] = resolution
    for parameter in parameters:
        if parameter not in accepted:
            raise InputError(f"{name} has no parameter {parameter!r}; accepted: {', '.join(accepted)}")
    return kind(**parameters)
