"""Training: a dataset file and a config become a run directory. Other rooms import from here alone."""

from halfwave.measure import LiveBytes, RangeMonitor, StepMeasure, measure_step, samples_per_second
from halfwave.training.batches import Batch, Samples, cut, epoch_order
from halfwave.training.clouds import CloudEncoder, CloudSamples
from halfwave.training.comparison import build_engine, compare_steps
from halfwave.training.config import AUTO, FREE_ON_RESUME, PLANNED, TrainConfig, read_config
from halfwave.training.engine import Engine
from halfwave.training.evaluation import evaluate, rounding_of, sample_errors
from halfwave.training.from_run import initial_model, recipe_of_run
from halfwave.training.losses import RelativeH1, RelativeL2, build_loss
from halfwave.training.nonfinite import NonFiniteError
from halfwave.training.operator import Operator
from halfwave.training.parting import Parting, compare_precisions
from halfwave.training.problem import LATENT_RESOLUTION, AnyDataset, build_operator, meta_network, open_data
from halfwave.training.recipe_step import build_recipe_step
from halfwave.training.records import RunResult, read_metrics
from halfwave.training.rollout import (
    RolloutResult,
    evaluate_rollout,
    longest_rollout,
    roll_out,
    start_of,
    stepper_of,
    truth_of,
)
from halfwave.training.run_directory import claimed, describe_environment, find_model_file, is_run, library_version
from halfwave.training.run_listing import RunListing, differing_settings, find_runs
from halfwave.training.run_state import seed_all
from halfwave.training.saving import load, read_extra, save
from halfwave.training.spectra import Spectrum, wave_spectrum
from halfwave.training.trainer import _settle as settle
from halfwave.training.trainer import train, train_seeds

__all__ = [
    "AUTO",
    "FREE_ON_RESUME",
    "LATENT_RESOLUTION",
    "PLANNED",
    "AnyDataset",
    "Batch",
    "CloudEncoder",
    "CloudSamples",
    "Engine",
    "LiveBytes",
    "NonFiniteError",
    "Operator",
    "Parting",
    "RangeMonitor",
    "RelativeH1",
    "RelativeL2",
    "RolloutResult",
    "RunListing",
    "RunResult",
    "Samples",
    "Spectrum",
    "StepMeasure",
    "TrainConfig",
    "build_engine",
    "build_loss",
    "build_operator",
    "build_recipe_step",
    "claimed",
    "compare_precisions",
    "compare_steps",
    "cut",
    "describe_environment",
    "differing_settings",
    "epoch_order",
    "evaluate",
    "evaluate_rollout",
    "find_model_file",
    "find_runs",
    "initial_model",
    "is_run",
    "library_version",
    "load",
    "longest_rollout",
    "measure_step",
    "meta_network",
    "open_data",
    "read_config",
    "read_extra",
    "read_metrics",
    "recipe_of_run",
    "roll_out",
    "rounding_of",
    "sample_errors",
    "samples_per_second",
    "save",
    "seed_all",
    "settle",
    "start_of",
    "stepper_of",
    "train",
    "train_seeds",
    "truth_of",
    "wave_spectrum",
]
