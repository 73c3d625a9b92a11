"""train: a dataset file and a config become a run directory; an interrupted run goes on where it stood.

run_dir/config.json          settings, domain, versions, git state, fingerprint of the data
run_dir/metrics.csv          one row per epoch
run_dir/model.safetensors    the operator after the last epoch: `halfwave.load` needs nothing else
run_dir/best.safetensors     the one with the smallest test L2
run_dir/state/               the last checkpoints
run_dir/summary.json         the figures of the result
run_dir/events.out.tfevents  TensorBoard
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from halfwave.errors import InputError
from halfwave.files import check_no_input, make_directory, read_json, write_json
from halfwave.models import MODELS, set_precision
from halfwave.training.config import TrainConfig
from halfwave.training.curves import draw_curves
from halfwave.training.devices import launch
from halfwave.training.directory import claimed
from halfwave.training.engine import Engine
from halfwave.training.keeper import Keeper
from halfwave.training.loop import Loop
from halfwave.training.position import Position
from halfwave.training.problem import AnyDataset, build_operator, open_data, problem_of
from halfwave.training.progress import Display
from halfwave.training.randomness import seed_all
from halfwave.training.records import Row, is_started, read_metrics, start_record
from halfwave.training.targets import find_floor


@dataclass(frozen=True)
class RunResult:
    """Figures of a run, as its summary.json has them; `status` is finished, early (stopped) or interrupted."""

    status: str
    epochs: int
    l2: float | None
    h1: float | None
    train_loss: float | None
    samples_per_second: float | None
    peak_memory_bytes: int | None
    activation_bytes: int | None
    resolutions: dict[str, dict[str, float]]
    """Test errors {"l2", "h1"} at each of the config's test resolutions."""
    run_dir: str
    zero_targets: int = 0
    """Test samples that are left out of l2 and h1, as their target is zero."""

    @property
    def rows(self) -> list[Row]:
        """The rows of metrics.csv."""
        return read_metrics(self.run_dir)


def train(config: TrainConfig, run_dir: str | Path, *, quiet: bool = False) -> RunResult:
    """Train to the end, or go on with the run that `run_dir` holds; a finished one returns its result at once.

    InputError, before anything is written, for a data file or model that cannot be used, a directory that cannot be
    written, and a directory that holds a run with other settings or other data.
    """
    run_dir = Path(run_dir)
    check_no_input(run_dir, *(path for path in (config.data, config.test_data) if path is not None))
    dataset = open_data(config)
    check_config(config, dataset)
    if not is_started(run_dir):
        check_model(config, dataset)
    make_directory(run_dir)
    # Under torchrun every process is here: the first one holds the directory and writes, for all.
    first = os.environ.get("RANK", "0") == "0"
    with claimed(run_dir) if first else contextlib.nullcontext():
        if first:
            start_record(run_dir, config, dataset.placement)
        finished = _finished(run_dir)
        if finished is not None:
            return finished
        launch(_train, config.accelerator, config.devices, config.strategy, config, run_dir, quiet)
        return _read_result(run_dir)


def check_config(config: TrainConfig, dataset: AnyDataset) -> None:
    """InputError for settings that cannot be honoured together, on this data; nothing is built yet."""
    if config.model not in MODELS:
        raise InputError(f"unknown model {config.model!r}: expected one of {', '.join(MODELS)}")
    problem_of(dataset).check(config)
    config.build_schedule()
    for option in ("compile", "loss_scaling"):
        if config.strategy == "fsdp" and getattr(config, option):
            raise InputError(f"{option} does not work with strategy fsdp: expected strategy ddp")
    if config.compile and config.monitor:
        raise InputError("monitor looks at every layer and compile fuses them: expected one of the two")


def check_model(config: TrainConfig, dataset: AnyDataset) -> None:
    """InputError unless the config's model can be built and applied to a sample."""
    config = config.model_copy(update={"in_memory": False})  # one sample is enough
    operator = build_operator(config, dataset, fit=False)
    for _, policy in config.build_schedule().phases:
        try:
            set_precision(operator.model, policy)
        except ValueError as error:
            raise InputError(f"{config.model} cannot run in precision {config.precision}: {error}") from error
    x, _ = problem_of(dataset).samples(config, operator)[0][[0]]
    try:
        with torch.no_grad():
            operator(x)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{config.model} cannot be applied to {dataset.path}: {str(error).splitlines()[0]}") from error


def _train(fabric: Fabric, config: TrainConfig, run_dir: Path, quiet: bool) -> None:
    """The whole run, in one of its processes; the first one leaves summary.json."""
    dataset = open_data(config)
    problem = problem_of(dataset)
    seed_all(config.seed)
    operator = build_operator(config, dataset)
    train_split, test_split = problem.samples(config, operator)
    batches = -(-len(train_split) // config.batch_size)
    steps = -(-batches // config.accumulate) * config.epochs
    loss = problem.loss(config, find_floor(train_split, "train"))
    find_floor(test_split, "test")  # refuses targets that are all zero now, and not after an epoch
    engine = Engine(fabric, operator, loss, config, steps)
    with Display(config.epochs * batches, quiet or not fabric.is_global_zero) as display:
        if dataset.placement.origin == "default":
            display.say(f"domain: {dataset.domain}, the default, as {dataset.path.name} declares none (--domain)")
        keeper = Keeper(engine, run_dir, {**dataset.metadata, "domain": dataset.placement.to_dict()})
        loop = Loop(engine, train_split, test_split, keeper, display)
        loop.resume()
        position = loop.run()
        resolutions = loop.finish()
    if fabric.is_global_zero:
        draw_curves(run_dir)
        values = asdict(summarise(position, run_dir, resolutions))
        write_json(run_dir / "summary.json", {k: v for k, v in values.items() if k != "run_dir"})
    fabric.barrier()


def summarise(position: Position, run_dir: Path, resolutions: dict[str, dict[str, float]]) -> RunResult:
    """The result of a run: test errors of the last evaluation, the median rate, the largest memory."""
    rows: list[dict[str, Any]] = position.rows
    tested = [row for row in rows if row["test_l2"] is not None]
    rates = sorted(row["samples_per_second"] for row in rows if row["samples_per_second"] is not None)
    return RunResult(
        status=position.status,
        epochs=position.epoch,
        l2=tested[-1]["test_l2"] if tested else None,
        h1=tested[-1]["test_h1"] if tested else None,
        train_loss=rows[-1]["train_loss"] if rows else None,
        samples_per_second=rates[len(rates) // 2] if rates else None,
        peak_memory_bytes=max((row["peak_memory_bytes"] or 0 for row in rows), default=0) or None,
        activation_bytes=max((row["activation_bytes"] or 0 for row in rows), default=0) or None,
        resolutions=resolutions,
        run_dir=str(run_dir),
        zero_targets=(tested[-1].get("zero_targets") or 0) if tested else 0,
    )


def _finished(run_dir: Path) -> RunResult | None:
    result = _read_result(run_dir) if (run_dir / "summary.json").exists() else None
    return result if result is not None and result.status != "interrupted" else None


def _read_result(run_dir: Path) -> RunResult:
    try:
        return RunResult(**read_json(run_dir / "summary.json"), run_dir=str(run_dir))
    except TypeError as error:
        raise InputError(f"{run_dir / 'summary.json'} is not the summary of a run: {error}") from error
