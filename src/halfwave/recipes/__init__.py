"""A problem declared once: data, model and training at each scale, and the paper's settings with their lines."""

from halfwave.recipes.general import GENERAL, general_recipe, recipe_for
from halfwave.recipes.paper import (
    BLOCK_MB,
    HALF,
    METHOD_MB,
    OPTION_MB,
    PAPER,
    PATH_MB,
    SAVED,
    WEIGHTS_MB,
    paper_setting,
)
from halfwave.recipes.problems import LINE, PROBLEMS, TITLES, UNET_PROBLEMS
from halfwave.recipes.recipe import SCALES, DataFacts, Recipe, Scale, get_recipe, problem, recipes, register_recipe

__all__ = [
    "BLOCK_MB",
    "GENERAL",
    "HALF",
    "LINE",
    "METHOD_MB",
    "OPTION_MB",
    "PAPER",
    "PATH_MB",
    "PROBLEMS",
    "SAVED",
    "SCALES",
    "TITLES",
    "UNET_PROBLEMS",
    "WEIGHTS_MB",
    "DataFacts",
    "Recipe",
    "Scale",
    "general_recipe",
    "get_recipe",
    "paper_setting",
    "problem",
    "recipe_for",
    "recipes",
    "register_recipe",
]
