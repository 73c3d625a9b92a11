"""A problem is declared once: names are unique, every experiment reads the same values, the paper's have a source."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from halfwave.experiments.lab import Training
from halfwave.experiments.registry import NAMES, get_experiment
from halfwave.planner.paper_memory import paper_batch, paper_workload
from halfwave.recipes import (
    HALF,
    PAPER,
    PROBLEMS,
    Recipe,
    get_recipe,
    problem,
    recipes,
    register_recipe,
)
from halfwave.recipes.paper import Chosen, Stated
from halfwave.spectral import SpectralConv
from halfwave.spectral.factorized import FactorizedWeight


def test_names_and_scales_are_unique() -> None:
    darcy = get_recipe("darcy")
    with pytest.raises(ValueError, match="two recipes called 'darcy'"):
        register_recipe(darcy)
    with pytest.raises(ValueError, match="darcy has two recipes of scale 'standard'"):
        register_recipe(replace(darcy, name="another"))
    assert len({recipe.name for recipe in recipes()}) == len(list(recipes()))


def test_scales_of_a_problem() -> None:
    small = get_recipe("darcy").at("small")
    assert (small.name, small.scale) == ("darcy-small", "small")
    assert small.at("paper").at("standard") == get_recipe("darcy")
    with pytest.raises(ValueError, match=r"darcy has no scale 'huge': expected one of standard, demo, smoke"):
        small.at("huge")
    with pytest.raises(ValueError, match="unknown recipe 'nope'"):
        get_recipe("nope")
    for name in PROBLEMS:
        for scale in ("smoke", "small", "standard", "paper"):
            assert problem(name, scale).problem == name


def test_every_setting_of_the_paper_has_a_line_or_a_reason() -> None:
    for name in PROBLEMS:
        for setting in PAPER[name].values():
            assert isinstance(setting, Stated | Chosen)
            assert setting.line > 0 if isinstance(setting, Stated) else len(setting.because) > 10


def test_the_stated_lines_say_it() -> None:
    """Where the paper lies beside the repository: the number stands in its line."""
    paper = Path(__file__).parents[3] / "shared" / "paper.tex"
    if not paper.exists():
        pytest.skip("the paper's source is not beside this checkout")
    lines = paper.read_text().splitlines()
    words = {"cp": "CP", "l2": "L2", "True": "on the fly", "100000": "100k", "111": "the rest for the test set"}
    for settings in PAPER.values():
        for name, setting in settings.items():
            if isinstance(setting, Stated):
                text = lines[setting.line - 1].replace(r"\,", "").replace("$", "")
                expected = words.get(str(setting.value), str(setting.value))
                assert re.search(rf"(?<![0-9]){re.escape(expected)}(?![0-9])", text), (name, setting)


def _trainings(value: Any) -> list[Training]:
    if isinstance(value, Training):
        return [value]
    if isinstance(value, dict):
        return [t for part in value.values() for t in _trainings(part)]
    return []


def test_every_experiment_reads_the_recipes() -> None:
    """Whatever an experiment trains at the paper's scale is a recipe of the registry, or says which setting differs."""
    free = {"name", "title", "parameters", "n_train", "n_test", "training", "problem", "scale"}
    checked = 0
    for experiment in map(get_experiment, NAMES):
        for configuration in experiment.configurations("paper"):
            for field in fields(configuration):
                for training in _trainings(getattr(configuration, field.name)):
                    recipe, paper = training.recipe, _paper(training.recipe)
                    if paper is None:  # the synthetic fields of the theory's figures
                        continue
                    checked += 1
                    for name in {f.name for f in fields(Recipe)} - free - {"live"}:
                        assert getattr(recipe, name) == getattr(paper, name), (experiment.name, name)
                    assert training.config("").dtype in (HALF, "bf16", "fp8_e5m2_clipped", "fp8_e4m3", "tf32")
    assert checked > 100


def _paper(recipe: Recipe) -> Recipe | None:
    name = recipe.problem or recipe.generator
    return None if recipe.arguments.get("n_modes", [64, 64])[0] == 8 else problem(name, "paper")


@pytest.mark.parametrize("name", ["navier-stokes", "darcy", "navier-stokes-unet", "shallow-water"])
def test_the_memory_tables_read_the_recipes(name: str) -> None:
    recipe = problem(name, "paper")
    work = paper_workload(name)
    assert paper_batch(name) == recipe.training["batch_size"]
    assert work.inputs(2)[0] == 2
    assert work.inputs(2)[-1] == {"shallow-water": 512}.get(name, recipe.parameters["resolution"])
    assert work.model.config.items() >= {k: v for k, v in recipe.arguments.items() if v is not None}.items()


def test_the_bodies_of_the_memory_tables_read_the_recipes() -> None:
    recipe, work = problem("car", "paper"), paper_workload("car", "memory", "B")
    inputs = work.inputs(1)
    assert inputs["input_geom"].shape == (1, recipe.parameters["points"], 3)
    assert inputs["latent_queries"].shape == (1, *[recipe.training["latent_resolution"]] * 3, 3)
    weights = [module for module in work.model.modules() if isinstance(module, FactorizedWeight)]
    assert len(weights) == recipe.arguments["fno_n_layers"]
    assert {(w.settings.objective, w.settings.complex_mode) for w in weights} == {("memory", "B")}
    convs = [module for module in work.model.modules() if isinstance(module, SpectralConv)]
    assert list(convs[0].transform.n_modes) == recipe.arguments["fno_n_modes"]
