"""Optimizers that know which parameters are complex numbers as pairs."""

from halfwave.optimizers.adamw import AdamW
from halfwave.optimizers.choice import OPTIMIZERS, build_optimizer
from halfwave.optimizers.moments import STATES, distribute_moment, is_sharded

__all__ = ["OPTIMIZERS", "STATES", "AdamW", "build_optimizer", "distribute_moment", "is_sharded"]
