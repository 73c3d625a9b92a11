"""Trainings of equal epochs and of equal time: the paper compares precision schedules at 19 hours for each."""

from __future__ import annotations

from halfwave.experiments.experiment import Scale
from halfwave.experiments.lab import Training
from halfwave.recipes import problem

# Seconds of an epoch under each policy, table 'Results for FNO with full precision, mixed precision, and precision
# schedule', and the part of its epochs that the schedule spends under each.
SECONDS = {"mixed": 80.2, "amp": 83.8, "full": 121.4}
PHASES = {"mixed": 0.25, "amp": 0.5, "full": 0.25}


def paper_seconds(method: str) -> float:
    """Of the paper, the mean over a schedule's phases."""
    if method == "schedule":
        return sum(share * SECONDS[policy] for policy, share in PHASES.items())
    return SECONDS[method]


def epochs_of(method: str, full_epochs: int) -> int:
    """Epochs that a method passes in the time of `full_epochs` in full precision, at the paper's speeds."""
    return round(full_epochs * SECONDS["full"] / paper_seconds(method))


def navier_stokes(method: str, budget: str, scale: Scale, seed: int) -> Training:
    """A training on Navier-Stokes whose `budget` is as many epochs as full precision has, or as much time."""
    recipe = problem("navier-stokes", scale)
    full_epochs = recipe.training["epochs"]
    epochs = full_epochs if budget == "epochs" else epochs_of(method, full_epochs)
    # Without a change the training is the one of 'overview', and is not run twice.
    return Training(recipe, method, seed, {} if epochs == full_epochs else {"epochs": epochs})
