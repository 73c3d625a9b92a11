"""Trainings of equal epochs and of equal time: the paper compares precision schedules at 19 hours for each."""

from __future__ import annotations

from collections.abc import Mapping

from halfwave.experiments.experiment import Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import METHODS, train_as
from halfwave.recipes import problem

# Seconds of an epoch under each policy, table 'Results for FNO with full precision, mixed precision, and precision
# schedule' (paper.tex, lines 1395 to 1397), and the part of its epochs that the schedule spends under each.
SECONDS = {"mixed": 80.2, "amp": 83.8, "full": 121.4}
PHASES = {"mixed": 0.25, "amp": 0.5, "full": 0.25}
BUDGETS = {"epochs": "equal epochs", "time": "equal time, paper's GPU", "measured": "equal time, this machine"}


def epochs_of(precision: str, full_epochs: int, seconds: Mapping[str, float] = SECONDS) -> int:
    """Epochs that a precision passes in the time of `full_epochs` in full, at these seconds per epoch."""
    shares = PHASES if precision == "schedule" else {precision: 1.0}
    own = sum(share * seconds[policy] for policy, share in shares.items())
    return max(1, round(full_epochs * seconds["full"] / own))


def navier_stokes(method: str, budget: str, scale: Scale, seed: int) -> Training:
    """A training on Navier-Stokes with as many epochs as full has, or with its time at the paper's speeds."""
    recipe = problem("navier-stokes", scale)
    full_epochs = recipe.training["epochs"]
    epochs = full_epochs if budget != "time" else epochs_of(METHODS[method].precision, full_epochs)
    # Without a change the training is the one of 'overview', and is not run twice.
    return train_as(method, recipe, seed, **({} if epochs == full_epochs else {"epochs": epochs}))


def in_measured_time(training: Training, lab: Lab, steps: int) -> Training:
    """The same training with the epochs that it passes on this machine in the time of full precision.

    The policies of its phases take turns, step by step, so that whatever else the machine does hits all of them.
    """
    plain = {name: value for name, value in training.changes.items() if name != "phases"}
    policies = {name: Training(training.recipe, name, training.seed, plain) for name in PHASES}
    found = lab.compare(policies, steps)
    seconds = {name: 1 / found[name]["samples_per_second"] for name in PHASES}
    epochs = epochs_of(training.precision, training.recipe.training["epochs"], seconds)
    return Training(training.recipe, training.precision, training.seed, {**training.changes, "epochs": epochs})
