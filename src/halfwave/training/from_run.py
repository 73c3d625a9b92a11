"""What a run gives to others: its recipe, to plan and to profile with, and its weights, to begin from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from halfwave.errors import InputError
from halfwave.models import Unrolled, stepping_model
from halfwave.recipes import Recipe, recipe_for
from halfwave.training.config import TrainConfig, read_config
from halfwave.training.declared import ModelRecord
from halfwave.training.operator import Operator
from halfwave.training.problem import AnyDataset, open_data
from halfwave.training.run_directory import find_model_file
from halfwave.training.saving import load
from halfwave.training.sealed import read_sealed

_OF_THE_RECIPE = ("data", "model", "arguments", "recipe")


def recipe_of_run(run: Path) -> tuple[Recipe, AnyDataset]:
    """Model, settings and data of a run as a recipe, with its dataset opened."""
    config = read_config(run / "config.json")
    dataset = open_data(config)
    settings = {name: value for name, value in config.model_dump().items() if name not in _OF_THE_RECIPE}
    recipe = Recipe(run.name, f"the run {run}", config.model, config.arguments, "", {}, 0, 0, settings)
    return recipe_for(recipe, dataset), dataset


def initial_model(init_from: str) -> tuple[str, dict[str, Any]]:
    """Class and arguments of the model whose weights a run begins from."""
    path = find_model_file(Path(init_from))
    _, values = read_sealed(path)
    if values.get("kind") != "model":
        raise InputError(f"{path} holds {values.get('kind', 'no model')!r}: a run or a file of halfwave.save is needed")
    record = ModelRecord.read(path, values)
    return record.model, record.arguments


def begin_from(config: TrainConfig, model: nn.Module) -> Operator | nn.Module:
    """The trained model that `init_from` names, its normalizers with it; InputError unless it is built as `model`."""
    assert config.init_from is not None, "asked for only where it is given"
    path = find_model_file(Path(config.init_from))
    own = config.module
    loaded = load(path, expect=None if own is not None else config.model, model=own)
    bare = stepping_model(loaded.model if isinstance(loaded, Operator) else loaded)
    for name, tensor in model.state_dict().items():
        found = bare.state_dict().get(name)
        if found is None or found.shape != tensor.shape:
            raise InputError(f"{path} does not fit the model: {name!r} differs; give none of its arguments")
    return loaded.train()


def keep_units(start: Operator, fresh: Operator) -> Operator | None:
    """`fresh` in the units that `start` was trained in; None where one of them steps in time and the other does not."""
    if isinstance(start.model, Unrolled) != isinstance(fresh.model, Unrolled):
        return None
    if not isinstance(start.model, Unrolled) or not isinstance(fresh.model, Unrolled):
        return start
    units = start.model.unrolling.increments if fresh.model.unrolling.residual else ()
    stepping = Unrolled(start.model.model, replace(fresh.model.unrolling, increments=units))
    return Operator(stepping, start.x_normalizer, start.y_normalizer)
