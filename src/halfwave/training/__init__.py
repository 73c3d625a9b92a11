"""Training: a dataset file and a config become a run directory."""

from halfwave.measure import LiveBytes, RangeMonitor, StepMeasure, measure_step, samples_per_second
from halfwave.training.config import TrainConfig
from halfwave.training.evaluation import evaluate
from halfwave.training.losses import RelativeH1, RelativeL2, build_loss
from halfwave.training.operator import Operator
from halfwave.training.records import RunResult
from halfwave.training.saving import load, save
from halfwave.training.trainer import train, train_seeds

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
