"""What a command is to look at: a recipe by its name, a family on data of one's own, or a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from halfwave.commands.common import ReadingOptions, as_usage, log_console
from halfwave.data import Dataset, PointDataset, open_any
from halfwave.errors import UsageError
from halfwave.recipes import GENERAL, Recipe, general_recipe, get_recipe, recipe_for
from halfwave.training import is_run, recipe_of_run


@dataclass(frozen=True)
class Choice:
    """A recipe, and its dataset where that was opened."""

    recipe: Recipe
    dataset: Dataset | PointDataset | None = None


def choose(name: str, data: Path | None, reading: ReadingOptions) -> Choice:
    """The recipe called `name`, on `data` where they are given; or that of the run directory `name`."""
    if is_run(Path(name)):
        if data is not None:
            raise UsageError(f"{name} is a run, with data of its own: leave --data out")
        return _said(Choice(*recipe_of_run(Path(name))))
    if not name:
        raise UsageError(
            "RECIPE is missing: a recipe such as darcy, a family (fno, ...) with --data, or a run directory"
        )
    if name in GENERAL and data is None:
        raise UsageError(f"{name} takes its settings from the data: give --data FILE")
    if data is None:
        return Choice(as_usage(lambda: get_recipe(name)))
    dataset = open_any(data, reading.read_options())
    if name in GENERAL:
        return _said(Choice(general_recipe(name, dataset), dataset))
    return _said(Choice(recipe_for(as_usage(lambda: get_recipe(name)), dataset), dataset))


def _said(choice: Choice) -> Choice:
    if choice.dataset is not None:
        log_console().print(choice.dataset.understood(), soft_wrap=True)
    return choice
