"""Losses, trainer, checkpoints, measures."""

from halfwave.measure import LiveBytes, RangeMonitor, StepMeasure, measure_step, samples_per_second
from halfwave.training.config import TrainConfig
from halfwave.training.evaluation import evaluate
from halfwave.training.losses import RelativeH1, RelativeL2, build_loss
from halfwave.training.operator import Operator
from halfwave.training.saving import load, save
from halfwave.training.seeds import train_seeds
from halfwave.training.trainer import RunResult, train

__all__ = [
    "LiveBytes",
    "Operator",
    "RangeMonitor",
    "RelativeH1",
    "RelativeL2",
    "RunResult",
    "StepMeasure",
    "TrainConfig",
    "build_loss",
    "evaluate",
    "load",
    "measure_step",
    "samples_per_second",
    "save",
    "train",
    "train_seeds",
]
