"""Every generator by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from halfwave.data.ahmed import Ahmed
from halfwave.data.burgers import Burgers
from halfwave.data.car import Car
from halfwave.data.darcy import Darcy, SmoothDarcy
from halfwave.data.exact_waves import Advection, Heat
from halfwave.data.generator import Generator
from halfwave.data.kuramoto_sivashinsky import KuramotoSivashinsky
from halfwave.data.navier_stokes import NavierStokes
from halfwave.data.poisson import Poisson
from halfwave.data.shallow_water import ShallowWater
from halfwave.data.vorticity_trajectories import VorticityTrajectories
from halfwave.errors import InputError, nearest

_GENERATORS: dict[str, type] = {}
GENERATORS: Mapping[str, type] = MappingProxyType(_GENERATORS)
"""Every generator by its name on the command line."""


def register_generator(kind: type[Any]) -> type[Any]:
    """Make a generator known by its name: to `halfwave data`, to recipes, and to the files that it made."""
    if _GENERATORS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"there is a dataset called {kind.name!r} already")
    return kind


for _kind in (
    Darcy,
    NavierStokes,
    ShallowWater,
    Car,
    Ahmed,
    Burgers,
    KuramotoSivashinsky,
    Heat,
    Advection,
    Poisson,
    SmoothDarcy,
    VorticityTrajectories,
):
    register_generator(_kind)


def build_generator(name: str, *, resolution: int | None = None, **parameters: Any) -> Generator:
    """The generator `name`; `resolution` is the number of points a side, of latitudes, or of a body's points."""
    if name not in GENERATORS:
        raise InputError(f"there is no dataset {name!r}; accepted: {', '.join(GENERATORS)}{nearest(name, GENERATORS)}")
    kind = GENERATORS[name]
    accepted = [field.name for field in fields(kind)]
    if resolution is not None:
        parameters["resolution" if "resolution" in accepted else "points"] = resolution
    for parameter in parameters:
        if parameter not in accepted:
            near = nearest(parameter, accepted)
            raise InputError(f"{name} has no parameter {parameter!r}; accepted: {', '.join(accepted)}{near}")
    return kind(**parameters)
