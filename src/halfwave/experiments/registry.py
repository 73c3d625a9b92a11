"""Every table and figure of the paper by name, in the paper's order, and those of our own at the end."""

from __future__ import annotations

from importlib import import_module

from halfwave.errors import InputError, nearest
from halfwave.experiments.experiment import Experiment

NAMES = (
    "overview",
    "memory",
    "throughput",
    "error-curves",
    "ahmed",
    "super-resolution",
    "precision-schedule",
    "unet",
    "factorization",
    "frequency-modes",
    "theory-bounds",
    "profile",
    "global-stabilizers",
    "preactivation",
    "preactivation-scaling",
    "preactivation-spectrum",
    "block-precision",
    "tanh-ablation",
    "synthetic-spectrum",
    "number-systems",
    "tf32",
    "contraction",
    "path-caching",
    "greedy-path",
    "half-weights",
    "gemm-stability",
    "peer",
    "precision-swap",
    "cost-of-half",
    "train-in-half",
    "gradient-underflow",
    "apebench",
)
EXPERIMENTS = {name: f"halfwave.experiments.{name.replace('-', '_')}" for name in NAMES}
"""Name to module; a module is imported when its experiment is asked for, and holds it as EXPERIMENT."""
_OWN: dict[str, Experiment] = {}


def register_experiment(experiment: Experiment) -> Experiment:
    """Make an experiment of one's own known to `halfwave reproduce` by its name."""
    if experiment.name in EXPERIMENTS or _OWN.setdefault(experiment.name, experiment) is not experiment:
        raise ValueError(f"there is an experiment called {experiment.name!r} already")
    return experiment


def experiment_names() -> tuple[str, ...]:
    """All names, the paper's first."""
    return (*EXPERIMENTS, *_OWN)


def get_experiment(name: str) -> Experiment:
    """The experiment called `name`; InputError with the accepted names otherwise."""
    if name in _OWN:
        return _OWN[name]
    if name not in EXPERIMENTS:
        known = experiment_names()
        raise InputError(
            f"unknown experiment {name!r}: expected all or one of {', '.join(known)}{nearest(name, known)}"
        )
    experiment: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
    return experiment
