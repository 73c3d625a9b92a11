"""Predicted beside measured errors of trained models in every precision: the adjoint certificate against the truth.

    python benchmarks/certificate_table.py FOLDER [--samples 1] [--probes N] [--split]

FOLDER holds the runs of `trained_models.py`. For each model: its test error, the time of a certificate (of no more
samples than the run's batch has) in training steps as `halfwave train` takes them, and for each policy the predicted
and the measured relative L2 error of the answer, their ratio over all samples, and the smallest and largest ratio of a
single sample. Measured is the run under the policy against float64 on the same inputs. `--split` prints which layers
and stages the error comes from, in mixed bf16. Ends with exit code 0 when every ratio is between 0.5 and 2 and every
certificate takes at most 5 training steps.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import halfwave as hw
from halfwave.certificates import Sample, Sensitivities, measure_error, sensitivities
from halfwave.numerics import avoid_missing_tiles, cpu_multiplies
from halfwave.precision import Policy
from halfwave.training import CloudSamples, open_data, read_config, train

_NATIVE = "native"
CASES = (
    *(("mixed", "fp16", "wide"), ("mixed", "bf16", "wide"), ("mixed", "bf16", _NATIVE), ("mixed", "fp16", _NATIVE)),
    *(("half", "fp16", "wide"), ("half", "bf16", "wide"), ("half", "bf16", _NATIVE)),
    *(("amp", "bf16", "wide"), ("amp", "bf16", _NATIVE), ("HHF", "bf16", "wide"), ("FFH", "fp16", "wide")),
    *(("mixed", "fp8_e4m3", "emulated"), ("mixed", "tf32", "emulated")),
)
POINTWISE_ONLY = ("mixed", "amp")
MOST_STEPS = 5.0
REPEATS = 5


@dataclass(frozen=True)
class Trained:
    """A run's model, some test samples for it, and what a training step of it takes."""

    name: str
    error: float
    model: nn.Module
    samples: list[Sample]
    step_seconds: float
    spectral: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--probes", type=int)
    parser.add_argument("--split", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    avoid_missing_tiles()  # native products are torch's own here
    ratios, longest = [], 0.0
    for trained in _runs(options.folder, options.samples):
        sensitivities(trained.model, trained.samples[:1], probes=1)  # as a training step, which is not the first either
        found, seconds = _certified(trained, options.probes)
        steps = seconds / trained.step_seconds
        longest = max(longest, steps)
        print(
            f"\n{trained.name}: test L2 {trained.error:.3%}, certificate {steps:.1f} training steps ({seconds:.1f} s)"
        )
        print(f"{'policy':28}{'predicted':>11}{'measured':>11}{'ratio':>7}{'a sample':>14}")
        ratios += [_row(trained, found, case) for case in CASES if trained.spectral or case[0] in POINTWISE_ONLY]
        if options.split:
            _print_split(found)
    inside = sum(0.5 <= ratio <= 2 for ratio in ratios)
    print(
        f"\n{len(ratios)} cases, {inside} between 0.5 and 2; {min(ratios):.2f} to {max(ratios):.2f}; "
        f"a certificate takes at most {longest:.1f} training steps"
    )
    return 0 if inside == len(ratios) and longest <= MOST_STEPS else 1


def _runs(folder: Path, count: int) -> Iterator[Trained]:
    for run in sorted(folder.iterdir()):
        if (run / "model.safetensors").exists():
            yield _open(run, count)


def _open(run: Path, count: int) -> Trained:
    operator: Any = hw.load(run / "model.safetensors")
    config = read_config(run / "config.json")
    dataset = open_data(config)
    clouds = getattr(operator, "encoder", None) is not None
    split: Any = CloudSamples(dataset.test, operator.encoder) if clouds else dataset.test
    rows = list(range(min(count, config.batch_size, len(split))))  # no more than a training step sees
    each = [split[[row]][0] for row in rows]
    samples = [x.arguments() for x in each] if clouds else each
    error = json.loads((run / "summary.json").read_text())["l2"]
    spectral = any(isinstance(m, hw.SpectralConv) for m in operator.modules())
    return Trained(run.name, error, operator.model if clouds else operator, samples, _step_seconds(run), spectral)


def _step_seconds(run: Path) -> float:
    """Of a training step of the run as `halfwave train` takes it: some epochs of twenty steps, the first left out."""
    config = read_config(run / "config.json")
    short = {"n_train": 20 * config.batch_size, "n_test": config.batch_size, "epochs": 4}
    with tempfile.TemporaryDirectory() as folder:
        train(config.model_copy(update=short), folder, quiet=True)
        with (Path(folder) / "metrics.csv").open() as file:
            rates = [float(row["samples_per_second"]) for row in csv.DictReader(file)]
    return config.batch_size / statistics.median(rates[1:])


def _certified(trained: Trained, probes: int | None) -> tuple[Sensitivities, float]:
    """The certificate and its time in seconds, the median of some."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        found = sensitivities(trained.model, trained.samples, probes=probes)
        times.append(time.perf_counter() - start)
    return found, statistics.median(times)


def _row(trained: Trained, found: Sensitivities, case: tuple[str, str, str]) -> float:
    name, dtype, how = case
    policy = Policy.named(name, dtype)
    with _hardware(how):
        predicted, measured = found.predict(policy), measure_error(trained.model, trained.samples, policy)
    ratio, each = float(predicted.mean() / measured.mean()), predicted / measured
    label = f"{name} {dtype} {how}"
    print(f"{label:28}{predicted.mean():11.2e}{measured.mean():11.2e}{ratio:7.2f}{each.min():7.2f} {each.max():6.2f}")
    return ratio


def _hardware(how: str) -> AbstractContextManager[None]:
    if how == "emulated":
        return nullcontext()
    return cpu_multiplies("bf16", "fp16") if how == _NATIVE else cpu_multiplies()


def _print_split(found: Sensitivities) -> None:
    policy = Policy.named("mixed", "bf16")
    shares = found.shares(policy)
    total = found.predict(policy).square().mean()
    for (module, role), error in sorted(shares.items(), key=lambda item: -float(item[1].square().mean()))[:12]:
        square = error.square().mean()
        print(f"    {module or 'model':24}{role:20}{square.sqrt():10.2e}{square / total:7.1%}")


if __name__ == "__main__":
    sys.exit(main())
