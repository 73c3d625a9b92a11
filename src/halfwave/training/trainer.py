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
import copy
import os
import statistics
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from halfwave.data import Split
from halfwave.display import Display
from halfwave.errors import InputError, described
from halfwave.files import as_path, check_no_input, make_directory, write_json
from halfwave.models import MODELS, set_precision, stepping_model, trial_run
from halfwave.parallel import GridLayout, MeshShape, parallelize
from halfwave.recipes import GENERAL, general_recipe
from halfwave.training.checkpointing import Keeper
from halfwave.training.compiling import compiles, missing_compiler
from halfwave.training.config import AUTO, GIVEN, TrainConfig
from halfwave.training.devices import is_spawned, launch, under_torchrun
from halfwave.training.engine import Engine
from halfwave.training.from_run import begin_from, initial_model, keep_units
from halfwave.training.loop import Loop
from halfwave.training.losses import find_floor
from halfwave.training.operator import Operator
from halfwave.training.problem import AnyDataset, Problem, build_network, open_data, problem_of
from halfwave.training.records import FIGURES, SUMMARY, RunResult, read_result
from halfwave.training.run_directory import claimed, is_started, start_record
from halfwave.training.run_state import seed_all
from halfwave.training.team import build_team

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Job:
    """A config with its dataset opened and its model built, each when it is needed and once in a process.

    To another process it goes as its config, to be opened and built there.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = config

    def __reduce__(self) -> tuple[type[Job], tuple[TrainConfig]]:
        return Job, (self.config,)

    @cached_property
    def dataset(self) -> AnyDataset:
        return open_data(self.config)

    @cached_property
    def problem(self) -> Problem:
        return problem_of(self.dataset)

    @cached_property
    def model(self) -> nn.Module:
        """From the config's seed; from here on the random numbers are those of the run."""
        seed_all(self.config.seed)
        built = build_network(self.config, self.problem)
        return built if self.start is None else stepping_model(self.start.model)

    @cached_property
    def start(self) -> Operator | None:
        """What the run begins from, if it does not begin anew."""
        if self.config.init_from is None:
            return None
        found = begin_from(self.config, build_network(self.config, self.problem))
        return found if isinstance(found, Operator) else Operator(found, None, None)

    def operator(self, problem: Problem) -> Operator:
        """The model with what is fitted on the train split of `problem`, the job's own as one process has it, or with
        what it was trained with before."""
        if self.start is None or self.start.y_normalizer is None or not self.config.normalise:
            return problem.operator(self.config, self.model)
        begun = keep_units(self.start, problem.operator(self.config, self.model, fit=False))
        return problem.operator(self.config, self.model) if begun is None else begun


def train(
    config: TrainConfig | None = None, run_dir: str | Path | None = None, *, quiet: bool = False, **settings: Any
) -> RunResult:
    """Train to the end, or go on with the run that `run_dir` holds; a finished one returns its result at once.

    >>> halfwave.train(data=(x, y), model=halfwave.FNO(...), run_dir="runs/mine", epochs=20)
    >>> halfwave.train(data="flow.npz", model="fno", run_dir="runs/flow")

    The settings are those of a `TrainConfig`, or one of them. `data` are arrays, tensors, a `Dataset` of pairs or a
    path; `model` is a family (fno, tfno, sfno, gino, unet: its settings follow from the data), the name of a class with
    `arguments`, or a built module, which is trained in place (on one device). By default `run_dir` is
    runs/MODEL-PRECISION. A finished run goes on when more `epochs` are asked for.

    InputError, before anything is written, for a data file or model that cannot be used, a directory that cannot be
    written, and a directory that holds a run with other settings or other data.
    """
    config = _settle(config, settings)
    run_dir = None if run_dir is None else as_path(run_dir)
    name = f"{config.model.removeprefix('module:')}-{config.precision}"
    run_dir = Path("runs") / name if run_dir is None else run_dir
    held = (None if config.data.startswith(GIVEN) else config.data, config.test_data)
    check_no_input(run_dir, *(path for path in held if path is not None))
    job = Job(config)
    check_config(job)
    if not is_started(run_dir):
        check_model(job)
    make_directory(run_dir)
    # Under torchrun every process is here: the first one holds the directory and writes, for all.
    first = os.environ.get("RANK", "0") == "0"
    with claimed(run_dir) if first else contextlib.nullcontext():
        if first:
            start_record(run_dir, config, job.dataset.placement)
        finished = _finished(run_dir)
        if finished is not None and finished.epochs < config.epochs and finished.status == "finished":
            with Display(0, quiet) as display:
                display.say(
                    f"{run_dir} was finished after {finished.epochs} epochs: going on to {config.epochs}, "
                    f"at the rates of a run of that many"
                )
        elif finished is not None:
            return finished
        if is_spawned(config.processes, config.launched_as):
            job = Job(config)  # the model that was checked is freed: each worker has one of its own
        launch(_train, config.accelerator, config.processes, config.launched_as, job, run_dir, quiet)
        return read_result(run_dir)


def _settle(config: TrainConfig | None, settings: dict[str, Any]) -> TrainConfig:
    if config is not None and settings:
        raise InputError(f"{next(iter(settings))} is given beside a config: expected it in the config")
    if config is not None and not isinstance(config, TrainConfig):
        raise InputError(f"config is {described(config)}: expected a TrainConfig, or settings by their names")
    if config is not None:
        return config
    family, data = settings.get("model", "fno"), settings.get("data")
    if not isinstance(family, str) or family not in GENERAL:
        return TrainConfig(**settings)
    read = TrainConfig(**{**settings, "model": GENERAL[family][0], "arguments": {}})
    changes = {name: value for name, value in settings.items() if name not in ("model", "data")}
    recipe = general_recipe(family, open_data(read))
    if read.init_from is not None:
        model, arguments = initial_model(read.init_from)
        recipe = replace(recipe, model=model, arguments=arguments)
    return TrainConfig.of(recipe, data, **changes)


def check_config(job: Job) -> None:
    """InputError for settings that cannot be honoured together, on this data; nothing is built yet."""
    config, problem = job.config, job.problem
    if config.module is None and config.model not in MODELS:
        raise InputError(f"unknown model {config.model!r}: expected one of {', '.join(MODELS)}")
    problem.check(config)
    config.build_schedule()
    for option in ("compile", "loss_scaling"):
        if config.strategy == "fsdp" and getattr(config, option) is True:
            raise InputError(f"{option} does not work with strategy fsdp: expected strategy ddp")
    _check_mesh(job)
    if config.compile is True and config.monitor:
        raise InputError("monitor looks at every layer and compile fuses them: expected one of the two")


def _check_mesh(job: Job) -> None:
    """InputError for settings that need whole fields, or whole models, where a mesh has pieces of both."""
    config, shape = job.config, job.config.mesh_shape
    if shape is None:
        return
    if config.strategy == "fsdp":
        raise InputError(
            f"fsdp replaces parameters whose gradients a mesh sums and whose rows it gathers: expected mesh {shape} "
            "without strategy (it shares dense spectral weights and their optimizer state), or fsdp without mesh"
        )
    refused = {
        "devices": config.devices != 1, "strategy": config.strategy != "auto", "compile": config.compile is True,
        "loss_scaling": config.loss_scaling, "monitor": config.monitor, "loss h1": config.loss == "h1",
        "test_resolutions": bool(config.test_resolutions), "augment": bool(config.augment),
        "horizon": config.window is not None, "a built model": config.module is not None,
        "data of a program": config.data.startswith(GIVEN),
    }  # fmt: skip
    for name, given in refused.items():
        if given:
            raise InputError(f"{name} does not work with mesh {shape}: leave one of the two out")
    if under_torchrun() and int(os.environ["WORLD_SIZE"]) != shape.processes:
        raise InputError(f"mesh {shape} has {shape.processes} processes and torchrun {os.environ['WORLD_SIZE']}")


def check_model(job: Job) -> None:
    """InputError unless the config's model can be built and applied to a sample; it is as before afterwards."""
    config = job.config.model_copy(update={"in_memory": False})  # one sample is enough
    operator = job.problem.operator(config, job.model, fit=False)
    for _, policy in config.build_schedule().phases:
        try:
            set_precision(job.model, policy)
        except ValueError as error:
            raise InputError(f"{config.model} cannot run in precision {config.precision}: {error}") from error
    if config.mesh_shape is not None:
        _check_pieces(job, config.mesh_shape)
        return
    x, _ = job.problem.samples(config, operator)[0][[0]]
    try:
        with trial_run(job.model), torch.random.fork_rng(devices=[]), torch.no_grad():
            operator(x)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{config.model} cannot be applied to {job.dataset.path}: {reason}") from error


def _check_pieces(job: Job, shape: MeshShape) -> None:
    """Every process's model, applied to the shape of its piece on `meta`: a whole field may not fit anywhere."""
    for split in (job.dataset.train, job.dataset.test):
        assert isinstance(split, Split), "clouds were refused"
        grid = split.grid
        try:
            for rank in {0, prod(shape.grid) - 1}:
                layout = GridLayout.planned(shape.grid, shape.axes, grid, rank)
                model = parallelize(copy.deepcopy(job.model).to("meta"), layout)
                with trial_run(model), torch.no_grad():
                    model(torch.empty(1, split.in_channels, *layout.piece_of(grid).grid, device="meta"))
        except (RuntimeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            message = f"{job.config.model} cannot be applied to pieces of {job.dataset.path}: {reason}"
            raise InputError(message) from error


def _train(fabric: Fabric, job: Job, run_dir: Path, quiet: bool) -> None:
    """The whole run, in one of its processes; the first one leaves summary.json."""
    config, dataset = job.config, job.dataset
    team = build_team(fabric, config)
    problem = job.problem.on(team)
    operator = job.operator(problem)
    train_split, test_split = problem.samples(config, operator)
    batches = -(-len(train_split) // config.batch_size)
    steps = -(-batches // config.accumulate) * config.epochs
    loss = problem.loss(config, find_floor(train_split, "train"), operator.model)
    find_floor(test_split, "test")  # refuses targets that are all zero now, and not after an epoch
    compiled = compiles(config, operator, train_split, steps, fabric.device)
    missing = missing_compiler() if compiled and config.compile == AUTO else None
    engine = Engine(fabric, operator, loss, config, steps, team, compiled and missing is None)
    with Display(config.epochs * batches, quiet or not fabric.is_global_zero) as display:
        display.say(dataset.understood())
        if missing is not None:
            display.say(f"{missing}: training runs eagerly, which is slower")
        if dataset.placement.origin == "default":
            display.say(f"domain: {dataset.domain}, the default, as {dataset.path.name} declares none (--domain)")
        keeper = Keeper(engine, run_dir, {**dataset.metadata, "domain": dataset.placement.to_dict()})
        loop = Loop(engine, train_split, test_split, keeper, display)
        loop.resume()
        position = loop.run()
        resolutions = loop.finish()
    if fabric.is_global_zero:
        from halfwave.report import draw_curves  # here: a run of hours need not wait for a drawing library

        draw_curves(run_dir)
        RunResult.of(position.status, position.rows, resolutions, run_dir).write()
        keeper.place.check()
    fabric.barrier()


def _finished(run_dir: Path) -> RunResult | None:
    result = read_result(run_dir) if (run_dir / SUMMARY).exists() else None
    return result if result is not None and result.status != "interrupted" else None


def train_seeds(config: TrainConfig, run_dir: str | Path, seeds: int, *, quiet: bool = False) -> dict[str, Any]:
    """The same run from several seeds, from the config's on, in ``run_dir/seed-N``; a finished one is not run again.

    Returns, and writes to ``run_dir/summary.json``, {"seeds": [...], figure: {"mean", "std", "values"}}; the standard
    deviation is that of the sample, 0 for one seed. Stops after a run that was interrupted.
    """
    config = _settle(config, {})
    if not isinstance(seeds, int) or not 1 <= seeds <= 2**64 - config.seed:
        raise InputError(f"seeds must be at least 1 and end below 2^64, got {seeds} from {config.seed} on")
    run_dir = as_path(run_dir)
    numbers = range(config.seed, config.seed + seeds)
    results = []
    for seed in numbers:
        results.append(train(config.model_copy(update={"seed": seed}), run_dir / f"seed-{seed}", quiet=quiet))
        if results[-1].status == "interrupted":
            return {"status": "interrupted", "seeds": list(numbers)[: len(results)]}
    summary = {"status": "finished", "seeds": list(numbers), **{f: _spread(results, f) for f in FIGURES}}
    write_json(run_dir / SUMMARY, summary)
    return summary


def _spread(results: list[RunResult], figure: str) -> dict[str, Any]:
    values = [getattr(result, figure) for result in results]
    known = [float(value) for value in values if value is not None]
    mean = statistics.fmean(known) if known else None
    return {"mean": mean, "std": statistics.stdev(known) if len(known) > 1 else 0.0, "values": values}
