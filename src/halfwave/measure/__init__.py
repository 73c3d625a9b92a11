"""What did it cost: live bytes, clocks, the values that passed; profiles and the benchmark are modules of their own."""

from halfwave.measure.allocated import allocated_activations
from halfwave.measure.bench import PEER, BenchRow, run_cases
from halfwave.measure.bench_cases import BENCH_CASES, BenchCase, build_ours, build_peer
from halfwave.measure.clocks import (
    best_seconds,
    median_seconds,
    now,
    samples_per_second,
    seconds_of,
    synchronize,
    take_turns,
)
from halfwave.measure.heap import keep_freed_blocks
from halfwave.measure.least_time import MachineRates, Work, count_work, measure_rates, product_flops
from halfwave.measure.live_bytes import LiveBytes, storage_bytes
from halfwave.measure.profile import profile_step
from halfwave.measure.profile_times import PROFILE_PARTS
from halfwave.measure.ranges import RangeMonitor
from halfwave.measure.step import (
    StepMeasure,
    TrainingStep,
    measure,
    measure_step,
    take_allocator_peak,
    tensors_of,
    training_step,
)

__all__ = [
    "BENCH_CASES",
    "PEER",
    "PROFILE_PARTS",
    "BenchCase",
    "BenchRow",
    "LiveBytes",
    "MachineRates",
    "RangeMonitor",
    "StepMeasure",
    "TrainingStep",
    "Work",
    "allocated_activations",
    "best_seconds",
    "build_ours",
    "build_peer",
    "count_work",
    "keep_freed_blocks",
    "measure",
    "measure_rates",
    "measure_step",
    "median_seconds",
    "now",
    "product_flops",
    "profile_step",
    "run_cases",
    "samples_per_second",
    "seconds_of",
    "storage_bytes",
    "synchronize",
    "take_allocator_peak",
    "take_turns",
    "tensors_of",
    "training_step",
]
