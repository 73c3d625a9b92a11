"""Optimizers that know which parameters are complex numbers as pairs."""

from halfwave.optimizers.adamw import STATES, AdamW, distribute_moment, is_sharded
from halfwave.optimizers.choice import OPTIMIZERS, build_optimizer

__all__ = ["OPTIMIZERS", "STATES", "AdamW", "build_optimizer", "distribute_moment", "is_sharded"]
