"""Recipe: a problem declared once: its data, its model and its training, at each scale.

A recipe is plain data, so that the trainer, the planner, the experiments and the command line read the same one.
`training` holds fields of the trainer's config; `generator` and `parameters` say who makes the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from halfwave.data import Generator, build_generator, sample_shapes
from halfwave.domains import Domain
from halfwave.errors import InputError, nearest

Scale = Literal["smoke", "small", "medium", "standard", "paper"]
"""smoke: shows that everything runs; small: half a minute on two cores; standard: minutes; paper: the paper's size.

medium: an easier member of the family, whose models reach an error at which rounding can be seen: minutes too.
"""
SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True)
class DataFacts:
    """What plans need to know of data: shapes (C, *grid) of one sample's input and output, and the domain."""

    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    domain: Domain


@dataclass(frozen=True)
class Recipe:
    """A problem at one scale: what `halfwave train NAME` runs.

    Attributes:
        name: on the command line.
        title: one line for lists.
        model, arguments: class and constructor arguments; channels follow the data.
        generator, parameters: who makes the data when no file is given.
        n_train, n_test: samples of that data.
        live: whether it is made while training, new samples in each epoch, rather than once into a file.
        training: settings of the trainer that differ from its defaults.
        problem, scale: of which this is one setting; `at` gives the others. Empty for a recipe made on the way.
        facts: of the data, where they are not those of a generator (`recipes.recipe_for`).
    """

    name: str
    title: str
    model: str
    arguments: Mapping[str, Any]
    generator: str
    parameters: Mapping[str, Any]
    n_train: int
    n_test: int
    training: Mapping[str, Any] = field(default_factory=dict)
    live: bool = False
    problem: str = ""
    scale: str = ""
    facts: DataFacts | None = None

    def build_generator(self) -> Generator:
        """Who makes the data."""
        return build_generator(self.generator, **self.parameters)

    @property
    def domain(self) -> Domain:
        """Where the fields or points live."""
        return self.build_generator().domain if self.facts is None else self.facts.domain

    def sample_shapes(self, resolution: int | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes (C, *grid) of one sample's input and output, on the data's grid or on one of another resolution."""
        if self.facts is None:
            return sample_shapes(self.resized(resolution).build_generator())
        if not self.facts.domain.has_grid:
            raise InputError(f"{self.name} has point clouds, whose shapes are not known before they are read")
        if resolution is None:
            return self.facts.x_shape, self.facts.y_shape
        grid = self.facts.domain.grid(resolution)
        return (self.facts.x_shape[0], *grid), (self.facts.y_shape[0], *grid)

    def resized(self, resolution: int | None) -> Recipe:
        """The recipe with fields of another resolution; itself for None."""
        if resolution is None:
            return self
        kept = {name: value for name, value in self.parameters.items() if name != "solve_resolution"}
        return replace(self, parameters={**kept, "resolution": resolution})

    def at(self, scale: str) -> Recipe:
        """The same problem at another scale; ValueError with the scales that it has otherwise."""
        return problem(self.problem, scale)


_BY_NAME: dict[str, Recipe] = {}


def register_recipe(recipe: Recipe) -> Recipe:
    """Make a recipe known by its name, and to its problem by its scale; ValueError where either is taken."""
    for other in _BY_NAME.values():
        if other.name == recipe.name:
            raise ValueError(f"there are two recipes called {recipe.name!r}")
        if (other.problem, other.scale) == (recipe.problem, recipe.scale):
            raise ValueError(f"{recipe.problem} has two recipes of scale {recipe.scale!r}: {other.name}, {recipe.name}")
    _BY_NAME[recipe.name] = recipe
    return recipe


def get_recipe(name: str) -> Recipe:
    """The recipe called `name`; InputError with the accepted names otherwise."""
    if name not in _BY_NAME:
        raise InputError(f"unknown recipe {name!r}: expected one of {', '.join(_BY_NAME)}{nearest(name, _BY_NAME)}")
    return _BY_NAME[name]


def recipes() -> Iterator[Recipe]:
    """All recipes, in the order in which they were made known."""
    return iter(tuple(_BY_NAME.values()))


def problem(name: str, scale: str) -> Recipe:
    """A problem at a scale; ValueError with what there is otherwise."""
    found = {recipe.scale: recipe for recipe in _BY_NAME.values() if recipe.problem == name}
    if not found:
        raise ValueError(f"unknown problem {name!r}: expected one of {', '.join({r.problem: 0 for r in recipes()})}")
    if scale not in found:
        raise ValueError(f"{name} has no scale {scale!r}: expected one of {', '.join(found)}")
    return found[scale]
