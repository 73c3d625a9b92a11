"""Every table and figure of the paper by name, in the paper's order, and two of our own at the end."""

from __future__ import annotations

from importlib import import_module

from halfwave.errors import InputError
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
)
EXPERIMENTS = {name: f"halfwave.experiments.{name.replace('-', '_')}" for name in NAMES}
"""Name to module; a module is imported when its experiment is asked for, and holds it as EXPERIMENT."""


def get_experiment(name: str) -> Experiment:
    """The experiment called `name`; InputError with the accepted names otherwise."""
    if name not in EXPERIMENTS:
        raise InputError(f"unknown experiment {name!r}: expected all or one of {', '.join(EXPERIMENTS)}")
    experiment: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
    return experiment
